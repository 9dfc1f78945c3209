"""GET /v1/repos/{owner}/{repository}/logs/aggregate."""

from __future__ import annotations

from collections import Counter

import pytest
import pytest_asyncio

from indexing.models.events import Outcome
from tests.builders import GADGETS, after, make_event
from tests.service.front_door import LOGS, FrontDoor

AGGREGATE = f"{LOGS}/aggregate"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(module_door: FrontDoor) -> None:
    await module_door.store.write_events(
        [
            make_event(
                number,
                after(minutes=number),
                pull_request=number % 7 or None,
                event_type="action.merge" if number % 3 else "action.rebase",
                trigger=f"rule {number % 2}",
                outcome=Outcome.FAILURE if number % 10 == 0 else Outcome.SUCCESS,
            )
            for number in range(120)
        ]
    )
    await module_door.store.write_events([make_event(1, repository=GADGETS)])


@pytest.fixture(autouse=True)
def three_hours_later(shared_door: FrontDoor, filled: None) -> None:
    shared_door.clock.now = after(hours=3)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "outcome=failure",
        "not_outcome=failure&not_pull_request=3",
        "event_type=action.merge&trigger=rule+1",
        "pull_request=1&pull_request=2",
        "received_from=2026-09-01T12:10:00Z&received_to=2026-09-01T13:00:30Z",
    ],
)
async def test_it_counts_the_rows_of_the_log(shared_door: FrontDoor, query: str) -> None:
    pages = await shared_door.walk(f"{LOGS}?per_page=100&{query}", "events")
    rows = [row for page in pages for row in page]
    answer = await shared_door.get(f"{AGGREGATE}?{query}")
    assert answer.status == 200, answer.body
    found = answer.json
    assert [*found] == [
        "total",
        "interval_size_seconds",
        "histogram",
        "by_event_type",
        "by_outcome",
        "by_trigger",
        "by_pull_request",
    ]
    assert found["total"] == len(rows) == sum(bar["count"] for bar in found["histogram"])
    assert 30 <= len(found["histogram"]) <= 120
    for bar in found["histogram"]:
        assert bar["count"] == sum(bar["start"] <= row["received_at"] < bar["end"] for row in rows)
    for facet, member in (
        ("by_event_type", "type"),
        ("by_trigger", "trigger"),
        ("by_pull_request", "pull_request"),
    ):
        counted = Counter(row[member] for row in rows if row[member] is not None)
        assert {each["value"]: each["count"] for each in found[facet]} == counted
        counts = [each["count"] for each in found[facet]]
        assert counts == sorted(counts, reverse=True)
    assert sum(each["count"] for each in found["by_outcome"]) == len(rows)


async def test_without_a_range_it_is_the_day_up_to_now(shared_door: FrontDoor) -> None:
    shared_door.clock.now = after(days=1, minutes=100)
    found = (await shared_door.get(AGGREGATE)).json
    assert (found["total"], found["interval_size_seconds"]) == (20, 900)
    assert len(found["histogram"]) == 97


async def test_wrong_parameters_are_named_and_others_ignored(shared_door: FrontDoor) -> None:
    answer = await shared_door.get(f"{AGGREGATE}?outcome=x&not_pull_request=a&received_from=1")
    assert answer.wrong_fields == [
        ("query", "not_pull_request"),
        ("query", "outcome"),
        ("query", "received_from"),
    ]
    answer = await shared_door.get(f"{AGGREGATE}?per_page=5&cursor=x")
    assert (answer.status, answer.headers["X-Ignored-Parameters"]) == (200, "cursor, per_page")


async def test_an_empty_range_has_no_bars(shared_door: FrontDoor) -> None:
    moment = "2026-09-01T12:00:00Z"
    found = (await shared_door.get(f"{AGGREGATE}?received_from={moment}&received_to={moment}")).json
    assert (found["total"], found["histogram"], found["by_outcome"]) == (0, [], [])


async def test_the_extremes_of_time_are_accepted(shared_door: FrontDoor) -> None:
    whole = "received_from=0001-01-01T00:00:00Z&received_to=9999-12-31T23:59:59.999999Z"
    found = (await shared_door.get(f"{AGGREGATE}?{whole}")).json
    assert found["total"] == 120
    assert found["histogram"][0]["start"] == "0001-01-01T00:00:00Z"


async def test_another_repository_is_as_a_missing_one(shared_door: FrontDoor) -> None:
    key = await shared_door.new_key(owner="umbrella")
    assert (await shared_door.get(AGGREGATE, key=key)).status == 404
    assert (await shared_door.get("/v1/repos/acme/absent/logs/aggregate")).status == 404
    assert (await shared_door.get(AGGREGATE, key="mw_x")).status == 403


async def test_head_answers_as_get_does(shared_door: FrontDoor) -> None:
    head = await shared_door.get(AGGREGATE, method="HEAD")
    assert (head.status, head.body) == (200, b"")
