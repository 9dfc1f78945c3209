"""Writes the page of results and its charts: the full run's into the docs, others elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.data.loading import FOLDER
from benchmarks.data.sizes import FULL, Size
from benchmarks.report import charts, tables
from benchmarks.report.document import GROWTH_CHART, THROUGHPUT_CHART, Setting, write_document
from benchmarks.results import ProfiledSubject, Results
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.machine import describe_machine, describe_versions
from benchmarks.verdicts import TargetResult
from tests.servers import jars

PAGE: Final = "RESULTS.md"


def publish(
    size: Size,
    results: Results,
    verdicts: Sequence[TargetResult],
    failing: Sequence[ProfiledSubject],
) -> Path:
    """Write the page; return its path."""
    folder = Path(__file__).parents[1] if size is FULL else FOLDER / size.name
    store = size.store
    setting = Setting(
        command="make bench" if size is FULL else f"make bench-{size.name}",
        machine=describe_machine(divide(available_cores(), 1)),
        versions=describe_versions([f"Elasticsearch {jars.VERSION}"]),
        stores=(
            f"{store.identities:,} tests, {store.tests:,} of them in the queried repository, with "
            f"{store.events:,} events"
        ),
    )
    page = folder / PAGE
    page.write_text(write_document(setting, results, verdicts, failing), encoding="utf-8")
    ratios = tables.ratios_of(results)
    if ratios:
        chart = charts.bars("Requests a second, as a ratio to the floor: one worker", ratios)
        (folder / THROUGHPUT_CHART).write_text(chart, encoding="utf-8")
    lines = tables.lines_of(results)
    if lines:
        chart = charts.lines("Time of an answer by the size of the store", lines, "milliseconds")
        (folder / GROWTH_CHART).write_text(chart, encoding="utf-8")
    return page
