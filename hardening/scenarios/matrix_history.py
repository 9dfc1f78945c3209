"""A matrix of jobs that failed long ago and passes now: load, rebuild and prune work."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from xml.sax.saxutils import quoteattr

import orjson

from hardening.bodies import make_spans
from hardening.findings import Finding, brief
from hardening.harness import STORES, Harness
from hardening.raw_http import NoResponseError, RawConnection
from hardening.seeding import Keys
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace, open_store
from indexing.timestamps import format_timestamp
from tests.builders import make_executions, make_run
from tests.places import Place

TESTS = 500
JOBS = (4, 16)
# The smallest heap in the tests; Elasticsearch derives its limit of query clauses from it.
HEAP = "256m"
NAME = RepositoryName("umbrella", "sender")
_FAILED_AGO = timedelta(days=40)


async def run(
    harness: Harness,
    *,
    tests: int = TESTS,
    jobs: Sequence[int] = JOBS,
    stores: Sequence[str] = STORES,
) -> list[Finding]:
    found = []
    for store in stores:
        async with _list_places(harness, store, jobs) as places:
            for count, place in places:
                found.append(await _try(harness, place, store, tests, count))
    return found


@asynccontextmanager
async def _list_places(
    harness: Harness, store: str, jobs: Sequence[int]
) -> AsyncIterator[list[tuple[int, Place]]]:
    if store == "sqlite":
        yield [(count, await harness.new_store(store)) for count in jobs]
        return
    with harness.own_node(HEAP) as node:
        yield [(count, ElasticsearchPlace((node.url,), f"matrix-{count}")) for count in jobs]


async def _try(harness: Harness, place: Place, store: str, tests: int, jobs: int) -> Finding:
    now = datetime.now(UTC).replace(microsecond=0)
    failed_at = now - _FAILED_AGO
    key = await _fill(harness, place, tests, jobs, failed_at)
    manifest = _write_reports(harness.new_folder("reports"), tests, jobs, now)
    steps, causes = [], []
    for words in (
        ("ingest", "junit", "--repository", str(NAME), "--manifest", str(manifest)),
        ("index", "rebuild"),
        ("index", "prune"),
    ):
        began = time.monotonic()
        status, _, said = await harness.command(place, *words)
        steps.append(f"`{' '.join(words[:2])}` {status} after {time.monotonic() - began:.1f} s")
        if status:
            causes.append(f"{words[1]}: {brief(said)}")
    async with harness.serve(place, ingest="true", log_level="info") as running:
        uploaded = await _upload(running.port, key, now)
        right = await _count_right(running.port, key, tests, failed_at)
    causes += running.service_errors()[:2]
    if uploaded != HTTPStatus.OK:
        causes.append(f"upload: {uploaded}")
    return Finding(
        f"{tests} tests in {jobs} jobs that failed 40 days ago, {store}",
        f"{', '.join(steps)}; an upload afterwards: {uploaded}; {right} of {tests} responses right",
        "0, 0, 0, 200, all right",
        not causes and right == tests,
        "; ".join(causes),
    )


async def _fill(harness: Harness, place: Place, tests: int, jobs: int, failed_at: datetime) -> str:
    """Make each test fail once in each job; never most at once, which is not evidence."""
    store = await open_store(place)
    try:
        await store.ensure_repository(NAME)
        for number in range(jobs):
            for half in (0, 1):
                run = make_run(f"old-{half}", job=_job(number), commit=f"old-{half}")
                results = [
                    (_name(n), Conclusion.FAILED if n % 2 == half else Conclusion.PASSED)
                    for n in range(tests)
                ]
                at = failed_at + timedelta(minutes=half)
                executions = make_executions(run, results, at, repository=NAME)
                await store.write_results(NAME, {run: executions})
        await store.refresh_tests(failed_at)
        return await Keys(harness, store).make(NAME.owner, scope=Scope.ADMIN)
    finally:
        await store.close()


def _job(number: int) -> str:
    return f"unit {number:02}"


def _name(number: int) -> str:
    return f"suite.test_{number:06}"


def _write_reports(folder: Path, tests: int, jobs: int, now: datetime) -> Path:
    """Write a report in which all tests pass, and a manifest that lists it once for each job."""
    cases = "".join(
        f'<testcase classname="suite" name={quoteattr(_name(n).partition(".")[2])} time="1"/>'
        for n in range(tests)
    )
    (folder / "report.xml").write_text(f"<testsuite>{cases}</testsuite>", encoding="utf-8")
    manifest = folder / "manifest.csv"
    lines = ["file,pipeline_name,job_name,branch,commit,started_at,run_id"]
    at = format_timestamp(now - timedelta(hours=1))
    lines += [f"report.xml,ci,{_job(n)},main,new,{at},new" for n in range(jobs)]
    manifest.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return manifest


async def _upload(port: int, key: str, now: datetime) -> int | str:
    """Send one more result of one test."""
    connection = RawConnection(port)
    path = f"/v1/ci/{NAME.owner}/repositories/{NAME.name}/traces"
    body = make_spans(0, 1, now, commit="newest")
    try:
        response = await connection.request(
            path, key, b"Content-Type: application/json", method="POST", body=body
        )
    except (NoResponseError, OSError, TimeoutError) as error:
        return type(error).__name__
    finally:
        connection.abort()
    return response.status


async def _count_right(port: int, key: str, tests: int, failed_at: datetime) -> int:
    """Count the tests that are healthy now and have the right first failure."""
    connection = RawConnection(port)
    right = 0
    for number in range(tests):
        test_id = derive_test_id(NAME, _name(number))
        response = await connection.request(
            f"/v1/ci/{NAME.owner}/repositories/{NAME.name}/tests/{test_id}", key
        )
        if response.status != HTTPStatus.OK:
            continue
        answer = orjson.loads(response.body)
        first = format_timestamp(failed_at + timedelta(minutes=number % 2))
        right += (answer["health_status"], answer["success_ratio"], answer["first_failure_at"]) == (
            "healthy",
            1.0,
            first,
        )
    connection.abort()
    return right
