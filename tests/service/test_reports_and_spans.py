"""The same results as a JUnit report and as spans give the same responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest

from indexing.ingest.junit import Refusal, ReportRequest, ingest_reports
from indexing.models.executions import Run
from indexing.models.keys import Scope
from service.config.settings import Settings
from tests.builders import GADGETS, NOON, PULL
from tests.service.conftest import open_door
from tests.service.front_door import SEARCH, TESTS, FrontDoor
from tests.spans import JSON, PROTOBUF, make_request, make_span, write

TRACES = "/v1/ci/acme/repositories/widgets/traces"
ABOUT_TESTS = {"framework": "pytest", "framework_version": "9.1", "language": "python"}


@dataclass(frozen=True)
class Case:
    name: str
    result: str
    retried: bool = False


@dataclass(frozen=True)
class Job:
    """One CI job and the results of its tests."""

    run_id: str
    commit: str
    at: datetime
    cases: Sequence[Case]
    name: str = "unit"
    branch: str = "main"
    attempt: int = 1


JOBS = [
    Job("1", "c1", NOON, [Case("opens", "failed"), Case("shuts", "passed"), Case("x", "skipped")]),
    Job("1", "c1", NOON + timedelta(minutes=5), [Case("opens", "passed")], attempt=2),
    Job("2", "c2", NOON + timedelta(hours=1), [Case("shuts", "passed", retried=True)]),
    Job("3", "c3", NOON + timedelta(hours=2), [Case("shuts", "passed")], name="lint"),
    Job("4", "c4", NOON + timedelta(hours=3), [Case("turns", "failed")], name="lint"),
    Job("5", "c5", NOON + timedelta(hours=4), [Case("turns", "failed")], name="lint"),
    Job("6", "c6", NOON + timedelta(hours=5), [Case("away", "passed")], branch="topic"),
    Job("7", "c7", NOON, [Case(f"all.{number}", "failed") for number in range(25)]),
]


def make_run(job: Job) -> Run:
    return Run(job.run_id, job.attempt, "ci", job.name, job.branch, job.commit, PULL.number, PULL)


def write_report(job: Job) -> str:
    cases = []
    for case in job.cases:
        inner = {
            "failed": '<failure type="AssertionError" message="it is stuck"/>',
            "skipped": "<skipped/>",
            "passed": "<flakyFailure/>" if case.retried else "",
        }[case.result]
        name = quoteattr(case.name)
        cases.append(f'<testcase name={name} file="hinge.py" time="1.5">{inner}</testcase>')
    return f"<testsuite>{''.join(cases)}</testsuite>"


def make_spans(job: Job, kind: str) -> bytes:
    spans = []
    for case in job.cases:
        about: dict[str, Any] = {
            "code.filepath": "hinge.py",
            "code.function": case.name,
            "mergewatch.test.needed_retries": case.retried or None,
        }
        if case.result == "failed":
            about |= {"exception.type": "AssertionError", "exception.message": "it is stuck"}
        spans.append(make_span(case.name, case.result, job.at, seconds=1.5, attributes=about))
    resource = {
        "cicd.pipeline.task.name": job.name,
        "cicd.pipeline.run.id": job.run_id,
        "cicd.pipeline.run.attempt": job.attempt,
        "vcs.ref.head.name": job.branch,
        "vcs.ref.head.revision": job.commit,
        "vcs.change.id": str(PULL.number),
        "mergewatch.pull_request.id": PULL.id,
        "mergewatch.pull_request.title": PULL.title,
        "mergewatch.pull_request.user.id": PULL.user_id,
        "mergewatch.pull_request.user.login": PULL.user_login,
        "test.framework": "pytest",
        "test.framework.version": "9.1",
        "test.language": "python",
    }
    return write(make_request(spans, resource), kind)


def refuse(refusal: Refusal) -> None:
    raise AssertionError(refusal)


async def answers_of(door: FrontDoor, repository: str) -> tuple[list[Any], list[Any]]:
    """Return the whole search and all details, without the fields that name the repository."""
    search = SEARCH.replace("widgets", repository)
    pages = await door.walk(f"{search}?test_name=*&per_page=100", "tests")
    rows = [row for page in pages for row in page]
    details = []
    for row in rows:
        target = f"{TESTS.replace('widgets', repository)}/{row.pop('test_id')}"
        detail = (await door.get(target)).json
        assert (detail.pop("repository"), detail.pop("test_id")) != (None, None)
        details.append(detail)
    return rows, details


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
async def test_reports_and_spans_of_the_same_runs_give_the_same_answers(
    tmp_path: Path, kind: str
) -> None:
    async for door in open_door(Settings(data_dir=tmp_path, ingest=True)):
        door.key = await door.new_key(Scope.ADMIN)
        for number, job in enumerate(JOBS):
            report = tmp_path / f"{number}.xml"
            report.write_text(write_report(job), encoding="utf-8")
            request = ReportRequest(
                report, GADGETS, make_run(job), started_at=job.at, **ABOUT_TESTS
            )
            await ingest_reports(door.store, [request], refuse=refuse, clock=door.clock)
            answer = await door.post(TRACES, make_spans(job, kind), kind)
            assert answer.body in (b"", b"{}")
        rows, details = await answers_of(door, "gadgets")
        assert (rows, details) == await answers_of(door, "widgets")
        health = {detail["test_name"]: detail["health_status"] for detail in details}
        assert {name: health[name] for name in ("opens", "shuts", "turns")} == {
            "opens": "flaky",
            "shuts": "flaky",
            "turns": "broken",
        }
        assert "away" not in health
        assert {
            detail["first_failure_pull"]["number"]
            for detail in details
            if detail["first_failure_pull"]
        } == {PULL.number}
