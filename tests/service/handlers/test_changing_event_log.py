"""GET /v1/repos/{owner}/{repository}/logs, while events come and go."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from indexing.models.events import Outcome
from tests.builders import NOON, after, make_event
from tests.service.front_door import LOGS, FrontDoor
from tests.service.handlers.event_log import fill_log, read_ids


@pytest.fixture(autouse=True)
async def filled(door: FrontDoor) -> None:
    door.clock.now = after(hours=1)
    await fill_log(door)


async def test_filters_by_trigger_and_outcome_include_and_leave_out(door: FrontDoor) -> None:
    await door.store.write_events(
        [
            make_event(100, after(minutes=20), trigger="a b", outcome=Outcome.FAILURE),
            make_event(101, after(minutes=21), trigger="c", outcome=Outcome.PENDING),
            make_event(102, after(minutes=22), trigger="c", outcome=Outcome.FAILURE),
        ]
    )
    assert await read_ids(door, "outcome=failure&outcome=pending") == [102, 101, 100]
    assert await read_ids(door, "outcome=failure&outcome=pending&not_trigger=c") == [100]
    assert await read_ids(door, "trigger=a+b&trigger=c&not_outcome=failure") == [101]
    assert await read_ids(door, "not_outcome=neutral&not_event_type=action.rebase") == []
    assert await read_ids(door, "not_pull_request=0&not_pull_request=1&per_page=4") == [
        102,
        101,
        100,
        24,
    ]
    answer = await door.get(
        f"{LOGS}?outcome=good&not_outcome=bad&trigger={'t' * 256}&not_event_type=x"
        "&not_pull_request=-1"
    )
    assert [field for _, field in answer.wrong_fields] == [
        "not_event_type",
        "not_outcome",
        "not_pull_request",
        "outcome",
        "trigger",
    ]


async def test_a_walk_keeps_to_the_window_that_its_first_page_fixed(door: FrontDoor) -> None:
    first = await door.get(f"{LOGS}?per_page=5")
    await door.store.write_events([make_event(99, after(minutes=61))])
    door.clock.now = after(days=1, hours=2)
    rest = await door.walk(first.links["next"], "events")
    assert [e["id"] for page in rest for e in page] == list(range(19, -1, -1))
    again = await door.get(first.links["first"])
    assert again.body == first.body
    assert [e["id"] for e in (await door.get(first.links["last"])).json["events"]] == [
        4, 3, 2, 1, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["walk first", "request first"])
async def test_the_first_page_of_a_walk_is_not_that_of_a_new_request(
    door: FrontDoor, order: str
) -> None:
    first = await door.get(f"{LOGS}?per_page=5")
    await door.store.write_events([make_event(99, after(minutes=61))])
    door.clock.now = after(minutes=62)
    targets = {
        f"{LOGS}?per_page=5": [99, 24, 23, 22, 21],
        first.links["first"]: [24, 23, 22, 21, 20],
    }
    for target in sorted(targets, reverse=order == "walk first"):
        found = [e["id"] for e in (await door.get(target)).json["events"]]
        assert found == targets[target], target


async def test_an_event_that_arrives_during_a_walk_hides_no_other(door: FrontDoor) -> None:
    first = await door.get(f"{LOGS}?per_page=5")
    await door.store.write_events([make_event(500, after(minutes=11))])
    rest = await door.walk(first.links["next"], "events")
    seen = [e["id"] for page in [first.json["events"], *rest] for e in page]
    assert sorted(set(seen) - {500}) == sorted(i for i in seen if i != 500) == list(range(25))


async def test_a_cursor_whose_row_retention_dropped_is_a_conflict(door: FrontDoor) -> None:
    first = await door.get(f"{LOGS}?per_page=5")
    await door.store.prune(after(hours=1), NOON)
    answer = await door.get(first.links["next"])
    assert answer.status == 409
    assert "start again" in answer.json["detail"]


async def test_unknown_members_are_returned(door: FrontDoor) -> None:
    event = make_event(700, NOON + timedelta(minutes=30), metadata={"new": [1, {"deep": None}]})
    await door.store.write_events([event])
    newest = (await door.get(f"{LOGS}?per_page=1")).json["events"][0]
    assert newest == orjson.loads(event.body)
