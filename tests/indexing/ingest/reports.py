"""Writes and loads reports, and reads what was stored of them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from indexing.identifiers import derive_test_id
from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import (
    Refusal,
    ReportRequest,
    ingest_reports,
)
from indexing.models.executions import Run
from indexing.models.paging import Anchor
from indexing.models.tests import TestDetail, TestQuery
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_run

SAMPLES = Path(__file__).parents[2] / "samples"
REPORT = "<testsuite>{}</testsuite>"


def write_report(path: Path, *names: str, inside: str = "") -> Path:
    cases = "".join(f'\n<testcase name="{name}">{inside}</testcase>' for name in names)
    path.write_text(REPORT.format(cases))
    return path


def request_for(path: Path, run: Run | None = None, at: datetime | None = NOON) -> ReportRequest:
    return ReportRequest(path, WIDGETS, run or make_run(), started_at=at)


async def ingest(
    store: Store, *requests: ReportRequest | Refusal
) -> tuple[IngestCount, list[Refusal]]:
    refused: list[Refusal] = []
    count = await ingest_reports(store, requests, refuse=refused.append, clock=after)
    assert count.read == count.written + count.unchanged + count.refused
    assert count.refused == len(refused)
    return count, refused


async def find(store: Store, name: str) -> TestDetail:
    detail = await store.get_test(WIDGETS, derive_test_id(WIDGETS, name))
    assert detail is not None
    return detail


async def count_of(store: Store, name: str) -> int:
    query = TestQuery(WIDGETS, (name,))
    page = await store.search_tests(query, Anchor(None), 10)
    return sum(row.key.executions_count for row in page.rows)
