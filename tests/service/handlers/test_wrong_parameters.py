"""Wrong values of parameters that single operations have; `tests/service/http` has the others."""

from __future__ import annotations

import pytest
import pytest_asyncio

from indexing.identifiers import derive_test_id
from tests.builders import WIDGETS
from tests.service.front_door import TESTS, FrontDoor
from tests.service.handlers.opened_streams import STREAM
from tests.service.handlers.results import fail, load

OF_TEST = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}"
EXECUTIONS, FAILURES, HEALTH = (
    f"{OF_TEST}/{what}" for what in ("executions", "failures", "health")
)
GROUPS, STATS = f"{TESTS}/groups", f"{TESTS}/stats"
TRANSITIONS = "/v1/ci/acme/repositories/widgets/health-transitions"


@pytest_asyncio.fixture(autouse=True, scope="module", loop_scope="module")
async def filled(module_door: FrontDoor) -> None:
    """Make the rows that right parameters would find."""
    await load(module_door, 1)
    await fail(module_door, 1)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("start=2026-09-01", "start"),
        ("start=2026-09-02T00:00:00Z&end=2026-09-01T00:00:00Z", "start"),
        ("start=2025-07-01T00:00:00Z", "start"),
        ("start=2020-01-01T00:00:00Z&end=2021-02-06T00:00:00Z", "start"),
        ("end=now", "end"),
        ("conclusion=flaky", "conclusion"),
        ("branch=", "branch"),
        (f"branch={'x' * 256}", "branch"),
        (f"commit={'x' * 2_049}", "commit"),
        ("per_page=101", "per_page"),
        ("cursor=x", "cursor"),
    ],
)
async def test_each_wrong_parameter_of_executions_is_named(
    shared_door: FrontDoor, query: str, field: str
) -> None:
    assert (await shared_door.get(f"{EXECUTIONS}?{query}")).wrong_fields == [("query", field)]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (f"{FAILURES}/1", ("path", "failure_id")),
        (f"{TESTS}/00000000-0000-4000-8000-000000000000/failures", ("path", "test_id")),
        (f"{FAILURES}?branch=", ("query", "branch")),
        (f"{FAILURES}?per_page=0", ("query", "per_page")),
    ],
)
async def test_each_wrong_parameter_of_failures_is_named(
    shared_door: FrontDoor, path: str, field: tuple[str, str]
) -> None:
    assert (await shared_door.get(path)).wrong_fields == [field]


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("nonsense", [("path", "stat")]),
        ("executions?start=yesterday", [("query", "start")]),
        ("executions?start=2020-01-01T00:00:00Z", [("query", "start")]),
        ("executions?start=2026-09-02T00:00:00Z&end=2026-09-01T00:00:00Z", [("query", "start")]),
        ("total_tests?job_name=unit", [("query", "job_name")]),
        ("executions?" + "&".join(f"job_name={n}" for n in range(101)), [("query", "job_name")]),
    ],
)
async def test_each_wrong_parameter_of_a_series_is_named(
    shared_door: FrontDoor, target: str, wrong: list[tuple[str, str]]
) -> None:
    assert (await shared_door.get(f"{STATS}/{target}")).wrong_fields == wrong


TOO_LONG = "start=2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        (f"{EXECUTIONS}?{TOO_LONG}&conclusion=flaky&cursor=x", ["conclusion", "cursor", "start"]),
        (f"{TRANSITIONS}?{TOO_LONG}&health_status=ill", ["health_status", "start"]),
        (f"{STATS}/executions?{TOO_LONG}&job_name=%00", ["job_name", "start"]),
        (f"{STATS}/total_tests?{TOO_LONG}&job_name=unit", ["job_name", "start"]),
        (f"{STATS}/total_tests?pipeline_name=ci&end=now", ["end", "pipeline_name"]),
        (f"{OF_TEST}/stats/flaky_count?{TOO_LONG}&job_name=%00", ["job_name", "start"]),
    ],
)
async def test_a_range_that_is_too_long_is_named_with_all_else(
    shared_door: FrontDoor, target: str, wrong: list[str]
) -> None:
    answer = await shared_door.get(target)
    assert sorted(answer.wrong_fields) == [("query", name) for name in wrong]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("", "is required"),
        ("?by=", "must be one of pipeline, job, directory, owner"),
        ("?by=test_name", "must be one of pipeline, job, directory, owner"),
        ("?by=job&by=job", "must be given once"),
    ],
)
async def test_what_to_group_by_is_one_of_a_few(
    shared_door: FrontDoor, query: str, detail: str
) -> None:
    answer = await shared_door.get(f"{GROUPS}{query}")
    assert answer.json["errors"] == [{"in": "query", "field": "by", "detail": detail}]


@pytest.mark.parametrize("query", ["include=", "include=metrics", "include=owners&include=total"])
async def test_a_report_on_health_includes_owners_or_nothing(
    shared_door: FrontDoor, query: str
) -> None:
    assert (await shared_door.get(f"{HEALTH}?{query}")).wrong_fields == [("query", "include")]
    assert (await shared_door.get(f"{HEALTH}?include=owners")).status == 200


@pytest.mark.parametrize("bad", ["x", "1-2-3", "A" * 63, "A" * 64, "A" * 65, "A" * 63 + "="])
async def test_what_is_no_id_of_an_event_is_refused(shared_door: FrontDoor, bad: str) -> None:
    answer = await shared_door.get(STREAM, **{"Last-Event-ID": bad})
    assert answer.status == 400
    assert "Last-Event-ID" in answer.json["detail"]
