"""GET /v1/ci/{owner}/repositories/{repository}/test-states: quarantines as plugins read them."""

from __future__ import annotations

import pytest

from indexing.models.keys import Scope
from indexing.models.quarantines import Quarantine
from tests.builders import WIDGETS, after
from tests.service.cache.quarantining import add
from tests.service.front_door import QUARANTINES, TEST_STATES, FrontDoor
from tests.service.twelve_quarantines import COUNT, add_twelve

# What pytest-mergify 2026.10.9 asks.
OF_PLUGIN = "state=quarantined&branch_name=main&pipeline_name=ci&job_name=unit&per_page=100"


@pytest.fixture
async def made(door: FrontDoor) -> list[Quarantine]:
    return await add_twelve(door)


async def names(door: FrontDoor, query: str = "") -> list[str]:
    answer = await door.get(f"{TEST_STATES}?per_page=100&{query}")
    assert answer.status == 200, answer.body
    return [row["test_name"] for row in answer.json["test_states"]]


async def test_a_page_has_the_rows_of_the_quarantines(
    door: FrontDoor, made: list[Quarantine]
) -> None:
    page = (await door.get(f"{TEST_STATES}?per_page=2")).json
    assert [*page] == ["size", "per_page", "test_states"]
    assert (page["size"], page["per_page"]) == (2, 2)
    expected = {
        "id": str(made[1].key.id),
        "test_name": "hinge.1",
        "state": "quarantined",
        "reason": "reason 1",
        "branch_name": "main",
        "created_at": "2026-09-01T12:01:00Z",
        "source": "auto",
        "is_recovered": False,
    }
    assert page["test_states"][1] == expected
    assert [*page["test_states"][1]] == [*expected]
    assert page["test_states"][0]["branch_name"] is None


@pytest.mark.usefixtures("made")
async def test_the_request_of_a_plugin_gets_what_applies_to_its_branch(door: FrontDoor) -> None:
    listed = (await door.get(f"{QUARANTINES}?branch=main")).json["quarantined_tests"]
    answer = await door.get(f"{TEST_STATES}?{OF_PLUGIN}")
    assert [row["id"] for row in answer.json["test_states"]] == [row["id"] for row in listed]
    assert len(listed) == 8
    assert "X-Ignored-Parameters" not in answer.headers


@pytest.mark.usefixtures("made")
async def test_the_filters_narrow_the_list(door: FrontDoor) -> None:
    assert await names(door, "branch_name=release/1.2/x&test_name=hinge.2") == ["hinge.2"]
    assert await names(door, "branch_name=main&test_name=hinge.2") == []
    assert await names(door, "test_name=hinge") == []
    assert await names(door, "test_name=hinge.*") == []
    assert len(await names(door)) == len(await names(door, "state=quarantined")) == COUNT


@pytest.mark.usefixtures("made")
async def test_quarantines_cover_all_pipelines_and_jobs(door: FrontDoor) -> None:
    everything = await names(door)
    assert await names(door, "pipeline_name=none&job_name=none&job_name=") == everything


@pytest.mark.parametrize("state", ["healthy", "flaky", "broken", "unknown", "muted", ""])
async def test_another_state_is_refused_and_the_known_one_named(
    door: FrontDoor, state: str
) -> None:
    answer = await door.get(f"{TEST_STATES}?state={state}")
    assert answer.wrong_fields == [("query", "state")]
    assert "quarantined" in answer.json["errors"][0]["detail"]


async def test_a_walk_gives_every_row_once_either_way_and_keeps_the_parameters(
    door: FrontDoor, made: list[Quarantine]
) -> None:
    expected = [str(quarantine.key.id) for quarantine in made]
    asked = "state=quarantined&pipeline_name=ci&job_name=unit+(3.11%2C+x)"
    for per_page in (1, 5, COUNT, COUNT + 1):
        target = f"{TEST_STATES}?{asked}&per_page={per_page}"
        pages = await door.walk(target, "test_states")
        assert [row["id"] for page in pages for row in page] == expected
        links = (await door.get(target)).links
        # Plugins follow links as they are, and split the header at its commas.
        assert all(link.startswith(f"{door.base}{TEST_STATES}?{asked}&") for link in links.values())
        assert not any("," in link for link in links.values())
        back = await door.walk(links["last"], "test_states", "prev")
        assert [row["id"] for page in reversed(back) for row in page] == expected


@pytest.mark.usefixtures("made")
async def test_a_page_has_ten_rows_unless_the_request_says_otherwise(door: FrontDoor) -> None:
    answer = await door.get(TEST_STATES)
    assert (answer.json["size"], answer.json["per_page"]) == (10, 10)
    assert "next" in answer.links


@pytest.mark.usefixtures("made")
async def test_a_cursor_of_the_other_list_is_refused(door: FrontDoor) -> None:
    other = (await door.get(f"{QUARANTINES}?per_page=5")).links["next"]
    cursor = other.partition("cursor=")[2]
    answer = await door.get(f"{TEST_STATES}?per_page=5&cursor={cursor}")
    assert answer.wrong_fields == [("query", "cursor")]


async def test_a_key_that_sends_results_reads_the_list(door: FrontDoor) -> None:
    await add(door, "hinge")
    key = await door.new_key(Scope.INGEST)
    answer = await door.get(f"{TEST_STATES}?{OF_PLUGIN}", key=key)
    assert (answer.status, answer.json["size"]) == (200, 1)


async def test_changes_show_at_once(door: FrontDoor, made: list[Quarantine]) -> None:
    whole = f"{TEST_STATES}?per_page=100"
    first = await door.get(whole)
    same = await door.get(whole, **{"If-None-Match": first.headers["ETag"]})
    assert (same.status, same.body) == (304, b"")
    await door.store.remove_quarantine(WIDGETS, made[5].key.id, after(hours=1))
    second = await door.get(whole, **{"If-None-Match": first.headers["ETag"]})
    assert (second.status, second.json["size"]) == (200, COUNT - 1)
    await add(door, "latch")
    assert "latch" in await names(door)
    # The quarantine of `hinge.0` expires.
    door.clock.now = after(days=1)
    assert (await door.get(whole)).json["size"] == COUNT - 1


async def test_an_unknown_repository_answers_as_for_quarantines(door: FrontDoor) -> None:
    paths = (TEST_STATES, QUARANTINES)
    answers = [await door.get(path.replace("widgets", "none")) for path in paths]
    assert [answer.status for answer in answers] == [404, 404]
    assert answers[0].body == answers[1].body
