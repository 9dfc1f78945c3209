"""GET /v1/ci/{owner}/repositories/{repository_name}/search/tests."""

from __future__ import annotations

import pytest
import pytest_asyncio

from indexing.identifiers import derive_test_id
from tests.builders import WIDGETS
from tests.service.front_door import SEARCH, FrontDoor
from tests.service.handlers.searching import fill, found


@pytest_asyncio.fixture(autouse=True, scope="module", loop_scope="module")
async def filled(module_door: FrontDoor) -> None:
    await fill(module_door)


async def test_each_test_pipeline_and_job_is_one_entry(shared_door: FrontDoor) -> None:
    answer = await shared_door.get(f"{SEARCH}?test_name=lid.fits&sort=pipeline_name&direction=asc")
    test_id = str(derive_test_id(WIDGETS, "lid.fits"))
    entry = {"test_id": test_id, "test_name": "lid.fits"}
    assert answer.json == {
        "size": 2,
        "per_page": 10,
        "tests": [
            {**entry, "pipeline_name": "ci", "job_name": "unit"},
            {**entry, "pipeline_name": "nightly", "job_name": "arm"},
        ],
    }
    assert [*answer.json["tests"][0]] == ["test_id", "test_name", "pipeline_name", "job_name"]


async def test_patterns_are_globs_and_repeated_ones_mean_any(shared_door: FrontDoor) -> None:
    query = "sort=test_name&direction=asc&pipeline_name=ci&test_name="
    assert [n for n, _, _ in await found(shared_door, query + "hinge.*&test_name=Lid*")] == [
        "Lid.fits",
        "hinge.closes",
        "hinge.opens",
    ]
    assert [n for n, _, _ in await found(shared_door, query + "lid.fits[a]")] == ["lid.fits[a]"]
    assert [n for n, _, _ in await found(shared_door, query + "hinge?100%25")] == ["hinge_100%"]
    assert await found(shared_door, query + "other*") == []


async def test_pipelines_and_jobs_can_be_chosen_and_left_out(shared_door: FrontDoor) -> None:
    base = "test_name=lid.fits"
    assert await found(shared_door, f"{base}&job_name=arm") == [("lid.fits", "nightly", "arm")]
    assert await found(shared_door, f"{base}&job_name_exclude=arm") == [("lid.fits", "ci", "unit")]
    assert await found(shared_door, f"{base}&pipeline_name_exclude=ci") == [
        ("lid.fits", "nightly", "arm")
    ]
    assert await found(shared_door, f"{base}&pipeline_name=ci&pipeline_name_exclude=ci") == []
    assert await found(shared_door, f"{base}&pipeline_name=") == []


@pytest.mark.parametrize("sort", ["executions_count", "test_name", "pipeline_name", "job_name"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
async def test_a_walk_gives_every_entry_once_either_way(
    shared_door: FrontDoor, sort: str, direction: str
) -> None:
    target = f"{SEARCH}?test_name=*&sort={sort}&direction={direction}&per_page=2"
    whole = (await shared_door.get(target.replace("per_page=2", "per_page=100"))).json["tests"]
    pages = await shared_door.walk(target, "tests")
    assert len(whole) == 7
    assert [row for page in pages for row in page] == whole
    last = (await shared_door.get(target)).links["last"]
    back = await shared_door.walk(last, "tests", "prev")
    assert [row for page in reversed(back) for row in page] == whole
    assert len(back[0]) == 2


@pytest.mark.parametrize(
    "other", ["sort=job_name", "direction=asc", "test_name=l*", "job_name=unit"]
)
async def test_a_cursor_of_another_search_is_refused(shared_door: FrontDoor, other: str) -> None:
    first = await shared_door.get(f"{SEARCH}?test_name=*&per_page=2")
    answer = await shared_door.get(f"{first.links['next']}&{other}")
    assert answer.wrong_fields == [("query", "cursor")]


async def test_defaults_may_be_spelled_out_during_a_walk(shared_door: FrontDoor) -> None:
    first = await shared_door.get(f"{SEARCH}?test_name=*&per_page=2")
    answer = await shared_door.get(f"{first.links['next']}&sort=executions_count&direction=desc")
    assert answer.status == 200
