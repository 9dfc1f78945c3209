"""Executions a second of one repository: loaded by one process, and by several at once.

Each process is the command that a CI job or an operator runs. Both loads have the same reports, of
tests that the store knows already, and have to leave the same state.
"""

from __future__ import annotations

import asyncio
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.data.generated import MEASURED, name_of
from benchmarks.data.sizes import Size
from benchmarks.results import Loaders
from benchmarks.running.new_stores import NewPlace
from benchmarks.running.processes import ROOT
from indexing.ingest.manifest import REQUIRED_COLUMNS
from indexing.timestamps import format_timestamp
from tests.places import Place, settings_of
from tests.whole_state import read_all

PROCESSES: Final = 4

_FIRST_RUN: Final = datetime(2026, 10, 1, tzinfo=UTC)
_REPORT: Final = "report.xml"
# One test in this many fails, a different one in each of three reports.
_FAILING: Final = 20
_REPORTS: Final = 3
# The shell's settings must not reach the loaders, and no CI's either.
_KEPT: Final = ("PATH", "HOME", "LANG")


def measure_loaders(size: Size, places: Mapping[str, NewPlace]) -> list[Loaders]:
    """Measure both ways of loading into each kind of store.

    Raises:
        RuntimeError: a loader failed, or the two stores differ afterwards.
    """
    found = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for number in range(_REPORTS):
            (folder / f"{number}-{_REPORT}").write_text(_report(size.loaders_tests, number))
        for store, new_place in places.items():
            with new_place() as alone, new_place() as shared:
                one = _load(alone, folder, size, 1)
                several = _load(shared, folder, size, PROCESSES)
                states = [asyncio.run(read_all(place, [MEASURED])) for place in (alone, shared)]
            if states[0] != states[1]:
                raise RuntimeError(f"{PROCESSES} loaders {store} left another state than one")
            found.append(Loaders(store, PROCESSES, size.loaders_reports, one, several))
            print(
                f"  {store:20} {one:8,.0f}/s by one, {several:8,.0f}/s by {PROCESSES}:"
                f" {found[-1].ratio:.2f}",
                file=sys.stderr,
            )
    return found


def _load(place: Place, folder: Path, size: Size, processes: int) -> float:
    """Load all reports after a first one; return the executions a second."""
    _run(place, [_manifest(folder, "first", [0])])
    reports = range(1, size.loaders_reports + 1)
    parts = [
        _manifest(folder, f"part-{number}", reports[number::processes])
        for number in range(processes)
    ]
    began = time.perf_counter()
    _run(place, parts)
    return len(reports) * size.loaders_tests / (time.perf_counter() - began)


def _run(place: Place, manifests: Sequence[Path]) -> None:
    """Run a loader for each manifest at once, until all have ended."""
    command = (str(Path(sys.executable).with_name("mergewatch")), "ingest", "junit")
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    running = [
        subprocess.Popen(  # noqa: S603
            (*command, "--repository", str(MEASURED), "--manifest", str(manifest)),
            cwd=ROOT,
            env=environment | settings_of(place),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for manifest in manifests
    ]
    for process in running:
        _, printed = process.communicate()
        if process.returncode:
            raise RuntimeError(f"a loader failed: {printed.decode(errors='replace')[-2_000:]}")


def _manifest(folder: Path, name: str, reports: Sequence[int]) -> Path:
    """Write the manifest of these reports, each of a run and a commit of its own."""
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(REQUIRED_COLUMNS)
        for number in reports:
            started_at = format_timestamp(_FIRST_RUN + timedelta(minutes=number))
            report, commit = f"{number % _REPORTS}-{_REPORT}", f"{number:040x}"
            rows.writerow((report, "ci", "unit", "main", commit, started_at, number))
    return path


def _report(tests: int, failing: int) -> str:
    cases = (
        f'<testcase name="{name_of(number)}" time="0.125">'
        + ('<failure message="assert 1 == 2"/>' if number % _FAILING == failing else "")
        + "</testcase>"
        for number in range(tests)
    )
    return f'<testsuite name="pytest" tests="{tests}">{"".join(cases)}</testsuite>'
