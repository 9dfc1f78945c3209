"""The input of timed loads, as a producer would send it: NDJSON, and JUnit reports."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from benchmarks.data.generated import MEASURED, EventMaker, name_of
from indexing.ingest.junit import ReportRequest
from indexing.models.executions import Run

CASES_A_REPORT: Final = 1_000


def event_text(count: int) -> bytes:
    """Make events, one a line."""
    maker = EventMaker()
    return b"".join(maker.make(number, count).body + b"\n" for number in range(count))


def write_reports(folder: Path, executions: int, *, same_tests: bool) -> list[ReportRequest]:
    """Write reports with this number of executions in total, each report with its own run.

    With `same_tests`, all of them have the same tests; otherwise each has its own.
    """
    return [
        _write_report(
            folder, number, 0 if same_tests else start, min(CASES_A_REPORT, executions - start)
        )
        for number, start in enumerate(range(0, executions, CASES_A_REPORT))
    ]


def _write_report(folder: Path, number: int, first: int, cases: int) -> ReportRequest:
    path = folder / f"report-{number}.xml"
    # The form that pytest writes: the class with its module, and the function beside it.
    path.write_text(
        f'<testsuite name="pytest" tests="{cases}" timestamp="2026-10-01T00:00:00+00:00">'
        + "".join(_case(name_of(n), failed=n % 20 == 0) for n in range(first, first + cases))
        + "</testsuite>",
        encoding="utf-8",
    )
    run = Run(str(number), 1, "ci", "linux", "main", f"{number:040x}")
    return ReportRequest(path, MEASURED, run)


def _case(name: str, *, failed: bool) -> str:
    module, _, function = name.rpartition("::")
    failure = '<failure message="assert 1 == 2">AssertionError</failure>' if failed else ""
    return (
        f"<testcase classname={quoteattr(module)} name={quoteattr(function)} time="
        f'"0.125">{failure}</testcase>'
    )
