"""A job with fifty runs a day for ninety days, loaded through the command line, day by day."""

from __future__ import annotations

import asyncio
import csv
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indexing.identifiers import derive_test_id
from indexing.names import parse_repository
from indexing.store import open_store
from tests.service.real_runs import run

pytestmark = pytest.mark.slow

REPOSITORY = parse_repository("acme/frequent")
# The outage harms all but the first.
FLAKES = ("flake", "harmed flake")
HARMED = ("harmed flake", "steady", "regression")
TESTS = ("flake", *HARMED)

DAYS = 90
RUNS_A_DAY = 50
START = datetime(2026, 6, 1, tzinfo=UTC)
FLAKE = range(30, 60)
RATE = 0.01
# In the afternoon of this day, every other result of those tests fails, for two hours.
OUTAGE_DAY = 45
OUTAGE_HOURS = (14, 16)
# These runs of these days fail in a row.
REGRESSIONS = {(day, number) for day in (10, 20, 40, 70, 71) for number in range(9, 20)}


def make_failures() -> Iterator[tuple[int, datetime, frozenset[str]]]:
    """Yield each run: its day, when it started, and which tests failed."""
    # With most seeds, both are flaky within ten days; with a few, one fails too seldom at first.
    rng = random.Random(3)
    for day in range(DAYS):
        for number in range(RUNS_A_DAY):
            at = START + timedelta(days=day, minutes=number * 24 * 60 / RUNS_A_DAY)
            failed = {name for name in FLAKES if day in FLAKE and rng.random() < RATE}
            if (day, number) in REGRESSIONS:
                failed.add("regression")
            if day == OUTAGE_DAY and OUTAGE_HOURS[0] <= at.hour < OUTAGE_HOURS[1]:
                failed.update(HARMED if number % 2 else ())
            yield day, at, frozenset(failed)


def write_report(folder: Path, failed: frozenset[str]) -> Path:
    """Write the report of a run with these failures, once."""
    path = folder / f"{'-'.join(sorted(failed)) or 'passed'}.xml"
    if not path.exists():
        cases = "".join(
            f'<testcase name="{name}">{"<failure/>" * (name in failed)}</testcase>'
            for name in TESTS
        )
        path.write_text(f"<testsuite>{cases}</testsuite>", encoding="utf-8")
    return path


async def read_statuses(place: Path) -> dict[str, str]:
    store = await open_store(place)
    try:
        found = [await store.get_test(REPOSITORY, derive_test_id(REPOSITORY, t)) for t in TESTS]
        return {each.test_name: each.health.health_status.value for each in found if each}
    finally:
        await store.close()


def test_a_flake_of_one_percent_is_seen_and_its_mend_too(tmp_path: Path) -> None:
    place = tmp_path / "store"
    flaky: dict[str, list[int]] = {name: [] for name in TESTS}
    runs = list(make_failures())
    for day in range(DAYS):
        manifest = tmp_path / "manifest.csv"
        with manifest.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(
                ["file", "pipeline_name", "job_name", "branch", "commit", "started_at", "run_id"]
            )
            for number, (on, at, failed) in enumerate(runs):
                if on == day:
                    path = write_report(tmp_path, failed)
                    row = [path, "ci", "unit", "main", f"c{number}", at.isoformat(), number]
                    writer.writerow(row)
        run(place, "ingest", "junit", f"--repository={REPOSITORY}", f"--manifest={manifest}")
        for name, status in asyncio.run(read_statuses(place)).items():
            if status == "flaky":
                flaky[name].append(day)
    for name in FLAKES:
        # The statuses are those at the end of a day.
        first, last = flaky[name][0], flaky[name][-1]
        assert FLAKE.start < first < FLAKE.start + 10
        assert FLAKE.stop <= last + 1 < FLAKE.stop + 15
        assert flaky[name] == list(range(first, last + 1))
    assert {name: days for name, days in flaky.items() if name not in FLAKES and days} == {}
