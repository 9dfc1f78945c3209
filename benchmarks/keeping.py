"""Saves the results of a run in a file, so that a single part can be measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from benchmarks.results import (
    CachedShare,
    Cost,
    Figure,
    Flood,
    History,
    Loaders,
    Memory,
    ProfiledSubject,
    Rebuild,
    Results,
    Round,
    Scaling,
    SmallWrites,
    Speed,
    Subject,
)
from benchmarks.running.profile import Profile, Share


def write_results(path: Path, results: Results) -> None:
    """Save the results and replace earlier ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))


def read_results(path: Path) -> Results:
    """Read the saved results; empty if there are none."""
    return decode(orjson.loads(path.read_bytes())) if path.exists() else Results()


def decode(value: dict[str, Any]) -> Results:
    """Convert parsed JSON back into results. Pure."""
    flood, memory = value["flood"], value["memory"]
    small = value.get("small_writes")
    return Results(
        figures=tuple(_figure(found) for found in value["figures"]),
        flood=flood
        and Flood(tuple(flood["alone"]), tuple(flood["flooded"]), flood["searches_per_second"]),
        memory=memory and Memory(memory["requests"], tuple(memory["resident"])),
        workers=tuple(Scaling(**found) for found in value.get("workers", ())),
        costs=tuple(Cost(**found) for found in value["costs"]),
        speeds=tuple(Speed(**found) for found in value["speeds"]),
        small_writes=small and SmallWrites(**small),
        histories=tuple(History(**found) for found in value.get("histories", ())),
        rebuilds=tuple(Rebuild(**found) for found in value.get("rebuilds", ())),
        loaders=tuple(Loaders(**found) for found in value.get("loaders", ())),
        cached_shares=tuple(CachedShare(**found) for found in value.get("cached_shares", ())),
        reports_ratio=value["reports_ratio"],
        hottest=tuple(_look(found) for found in value.get("hottest", ())),
        failures=tuple(value["failures"]),
        dates=value["dates"],
    )


def _look(value: dict[str, Any]) -> ProfiledSubject:
    shares = (tuple(Share(**s) for s in value["profile"][name]) for name in ("itself", "within"))
    return ProfiledSubject(Subject(**value["subject"]), Profile(*shares))


def _figure(value: dict[str, Any]) -> Figure:
    return Figure(**{**value, "rounds": tuple(Round(**found) for found in value["rounds"])})
