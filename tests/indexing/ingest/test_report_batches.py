"""How the executions of reports are divided into calls of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from indexing.ingest import junit, report_files
from indexing.ingest.junit import Refusal, ReportRequest, ingest_reports
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.store.interface import ExecutionCount, Steps
from tests.builders import NOON, WIDGETS, make_run

GADGETS = RepositoryName("acme", "gadgets")


class Calls:
    """A sink that records the names of the tests in each call."""

    def __init__(self) -> None:
        self.registered: list[RepositoryName] = []
        self.written: list[tuple[RepositoryName, dict[str, list[str]]]] = []

    async def ensure_repository(self, name: RepositoryName) -> None:
        self.registered.append(name)

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        names = {run.run_id: [each.test_name for each in found] for run, found in results.items()}
        self.written.append((repository, names))
        return ExecutionCount(sum(map(len, results.values())), 0)

    async def refresh_tests(
        self,
        now: datetime,  # noqa: ARG002 - the protocol names it
        progress: Steps | None,  # noqa: ARG002
        repository: RepositoryName | None,  # noqa: ARG002
    ) -> int:
        return 0


def write_report(path: Path, *names: str, output: str = "") -> Path:
    cases = "".join(
        f'<testcase name="{name}"><failure>{output}</failure></testcase>' for name in names
    )
    path.write_text(f"<testsuite>{cases}</testsuite>")
    return path


async def load(*requests: ReportRequest) -> tuple[Calls, list[Refusal]]:
    calls, refused = Calls(), list[Refusal]()
    await ingest_reports(calls, requests, refuse=refused.append, clock=lambda: NOON)
    return calls, refused


def request_for(
    path: Path, run_id: str = "1", repository: RepositoryName = WIDGETS
) -> ReportRequest:
    return ReportRequest(path, repository, make_run(run_id), started_at=NOON)


async def test_small_reports_share_a_call(tmp_path: Path) -> None:
    for number in range(30):
        write_report(tmp_path / f"{number:02}.xml", f"a{number}", f"b{number}")
    calls, _ = await load(request_for(tmp_path))
    ((_, written),) = calls.written
    assert written == {"1": [f"{each}{number}" for number in range(30) for each in "ab"]}


async def test_runs_share_a_call_and_repositories_do_not(tmp_path: Path) -> None:
    path = write_report(tmp_path / "a.xml", "one")
    calls, _ = await load(
        request_for(path, "1"), request_for(path, "2"), request_for(path, "3", GADGETS)
    )
    assert calls.written == [(WIDGETS, {"1": ["one"], "2": ["one"]}), (GADGETS, {"3": ["one"]})]


async def test_a_call_has_a_limited_number_of_executions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(junit, "BATCH_EXECUTIONS", 3)
    for name in "abcd":
        write_report(tmp_path / f"{name}.xml", name, name.upper())
    calls, _ = await load(request_for(tmp_path))
    assert [written["1"] for _, written in calls.written] == [
        ["a", "A", "b"],
        ["B", "c", "C"],
        ["d", "D"],
    ]


async def test_a_call_has_limited_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(junit, "BATCH_TEXT", 1_000)
    path = write_report(tmp_path / "a.xml", *"abcdef", output="at frame 1\n" * 30)
    calls, _ = await load(request_for(path))
    assert len(calls.written) > 1
    assert [name for _, written in calls.written for name in written["1"]] == list("abcdef")


async def test_a_report_without_cases_registers_its_repository_and_a_damaged_one_does_not(
    tmp_path: Path,
) -> None:
    empty, damaged = tmp_path / "empty.xml", tmp_path / "damaged.xml"
    empty.write_text("<testsuite/>")
    damaged.write_text("<testsuite>")
    calls, refused = await load(request_for(empty), request_for(damaged, repository=GADGETS))
    assert (calls.registered, calls.written) == ([WIDGETS], [])
    assert [refusal.file for refusal in refused] == [str(damaged)]


async def test_of_a_report_that_changes_while_it_is_read_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Such reports are too large to be held in memory.
    monkeypatch.setattr(report_files, "SMALL_REPORT_BYTES", 100)
    monkeypatch.setattr(report_files, "KEPT_CASES", 0)
    small = write_report(tmp_path / "a.xml", "small")
    large = write_report(tmp_path / "b.xml", *(f"t{number}" for number in range(50)))
    examine = report_files.ReportFile.examine

    def changing(path: Path) -> report_files.ReportFile:
        file = examine(path)
        if path == large:
            write_report(large, *(f"u{number}" for number in range(50)))
        return file

    monkeypatch.setattr(report_files.ReportFile, "examine", changing)
    calls, refused = await load(request_for(small), request_for(large), request_for(small, "2"))
    written = [names for _, names in calls.written]
    assert written == [{"1": ["small"]}, {"2": ["small"]}]
    assert [(refusal.file, "changed while" in refusal.reason) for refusal in refused] == [
        (str(large), True)
    ]
