"""GET /v1/repos/{owner}/{repository}/logs."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from indexing.timestamps import format_timestamp
from service.cache.answers import make_answer
from service.handlers.event_query import choose_received_range
from service.schemas.limits import DEFAULT_EVENT_RANGE
from tests.builders import after, make_event
from tests.service.front_door import LOGS, FrontDoor
from tests.service.handlers.event_log import fill_log, read_ids

moments = st.datetimes(timezones=st.just(UTC))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(module_door: FrontDoor) -> None:
    await fill_log(module_door)


@pytest.fixture(autouse=True)
def an_hour_later(request: pytest.FixtureRequest) -> None:
    if "shared_door" in request.fixturenames:
        request.getfixturevalue("filled")
        request.getfixturevalue("shared_door").clock.now = after(hours=1)


async def test_the_page_is_the_stored_text_in_the_order_of_the_interface(
    shared_door: FrontDoor,
) -> None:
    answer = await shared_door.get(f"{LOGS}?per_page=2")
    event = make_event(
        24, after(minutes=12), pull_request=4, event_type="action.rebase", metadata={}
    ).body
    assert answer.body.startswith(b'{"size":2,"per_page":2,"events":[' + event + b",")
    assert answer.headers["Content-Type"] == "application/json"


async def test_the_newest_come_first_and_ten_at_a_time(shared_door: FrontDoor) -> None:
    assert await read_ids(shared_door) == list(range(24, 14, -1))


async def test_repeated_filters_mean_any_of_them_and_different_ones_all(
    shared_door: FrontDoor,
) -> None:
    assert await read_ids(shared_door, "pull_request=0&pull_request=3") == [
        23,
        20,
        18,
        15,
        13,
        10,
        8,
        5,
        3,
        0,
    ]
    both = "pull_request=0&pull_request=3&base_ref=main&event_type=action.merge"
    assert await read_ids(shared_door, both) == [23, 13, 5]
    assert await read_ids(shared_door, both + "&event_type=action.rebase") == [23, 15, 13, 5, 3]


async def test_the_range_takes_its_beginning_and_not_its_end(shared_door: FrontDoor) -> None:
    start, end = format_timestamp(after(minutes=3)), format_timestamp(after(minutes=5))
    assert await read_ids(shared_door, f"received_from={start}&received_to={end}") == [9, 8, 7, 6]


async def test_without_a_range_it_is_the_day_up_to_now(shared_door: FrontDoor) -> None:
    shared_door.clock.now = after(days=1, minutes=11)
    assert await read_ids(shared_door) == [24, 23, 22]
    shared_door.clock.now = after(minutes=1)
    assert await read_ids(shared_door) == [1, 0]


async def test_a_beginning_in_the_future_alone_is_an_empty_page(shared_door: FrontDoor) -> None:
    answer = await shared_door.get(f"{LOGS}?received_from={format_timestamp(after(days=9))}")
    assert answer.json == {"size": 0, "per_page": 10, "events": []}
    assert set(answer.links) == {"first", "last"}


@given(st.none() | moments, st.none() | moments, moments)
def test_a_range_is_always_filled_in(
    start: datetime | None, end: datetime | None, now: datetime
) -> None:
    time_range = choose_received_range(start, end, now)
    if start is not None:
        assert time_range.start == start
    else:
        assert time_range.end - time_range.start <= DEFAULT_EVENT_RANGE
    if end is not None:
        assert time_range.end == end
    else:
        assert time_range.end >= now
    if start is None or end is None:
        assert time_range.start <= time_range.end


@pytest.mark.parametrize("per_page", [1, 3, 10, 24, 25, 26, 100])
async def test_a_walk_gives_every_event_once_either_way(
    shared_door: FrontDoor, per_page: int
) -> None:
    pages = await shared_door.walk(f"{LOGS}?per_page={per_page}", "events")
    assert [e["id"] for page in pages for e in page] == list(range(24, -1, -1))
    assert all(pages)
    first = await shared_door.get(f"{LOGS}?per_page={per_page}")
    back = await shared_door.walk(first.links["last"], "events", "prev")
    assert [e["id"] for page in reversed(back) for e in page] == list(range(24, -1, -1))
    assert all(back)


async def test_the_size_of_a_page_may_change_on_the_way(shared_door: FrontDoor) -> None:
    first = await shared_door.get(f"{LOGS}?per_page=5")
    following = first.links["next"].replace("per_page=5", "per_page=7")
    assert [e["id"] for e in (await shared_door.get(following)).json["events"]] == list(
        range(19, 12, -1)
    )


async def test_filters_may_be_spelled_differently_on_the_way(shared_door: FrontDoor) -> None:
    to = "received_to=2026-09-01T13:00:00Z"
    first = await shared_door.get(f"{LOGS}?pull_request=1&pull_request=2&{to}&per_page=2")
    cursor = first.links["next"].partition("cursor=")[2]
    respelled = "received_to=2026-09-01T14:00:00%2B01:00"
    answer = await shared_door.get(
        f"{LOGS}?pull_request=2&pull_request=1&pull_request=02&{respelled}&cursor={cursor}"
    )
    assert answer.status == 200


@pytest.mark.parametrize(
    "other",
    [
        "pull_request=1",
        "base_ref=main",
        "event_type=action.merge",
        "trigger=rule",
        "not_outcome=failure",
        "received_to=2026-09-02T00:00:00Z",
        "received_from=2026-09-01T00:00:00Z",
    ],
)
async def test_a_cursor_of_another_filter_is_refused(shared_door: FrontDoor, other: str) -> None:
    first = await shared_door.get(f"{LOGS}?per_page=2")
    answer = await shared_door.get(f"{first.links['next']}&{other}")
    assert answer.wrong_fields == [("query", "cursor")]


async def test_the_extremes_of_time_are_accepted(shared_door: FrontDoor) -> None:
    assert await read_ids(shared_door, "received_to=0001-01-01T00:00:00Z") == []
    whole = "received_from=0001-01-01T00:00:00Z&received_to=9999-12-31T23:59:59.999999Z"
    assert len(await read_ids(shared_door, f"{whole}&per_page=100")) == 25


async def test_head_answers_as_get_does_without_the_body(shared_door: FrontDoor) -> None:
    full = await shared_door.get(LOGS)
    head = await shared_door.get(LOGS, method="HEAD")
    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Length", "Content-Type", "Link"):
        assert head.headers[name] == full.headers[name]


async def test_an_absolute_target_of_another_place_is_not_believed(shared_door: FrontDoor) -> None:
    answer = await shared_door.get(f"{LOGS}?base_ref={quote('https://elsewhere.example/')}", **{
        "X-Forwarded-Host": "elsewhere.example", "X-Forwarded-Proto": "https",
        "Forwarded": "host=elsewhere.example",
    })  # fmt: skip
    assert [*answer.links] == ["first", "last"]
    assert all(
        url.startswith(f"{shared_door.base}{LOGS}?base_ref=https%3A")
        for url in answer.links.values()
    )


@pytest.mark.parametrize("stack", ["sqlite"], indirect=True)
async def test_the_tag_of_a_large_page_is_made_outside_the_event_loop(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []

    def note(*values: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return make_answer(*values)

    monkeypatch.setattr("service.cache.reader.make_answer", note)
    await door.store.write_events([make_event(1)])
    target = f"{LOGS}?received_from=2026-01-01T00:00:00Z"
    small = await door.get(f"{target}&per_page=1")
    monkeypatch.setattr("service.cache.reader._LARGE_BYTES", 10)
    large = await door.get(f"{target}&per_page=2")
    assert threads == [True, False]
    assert large.json["events"] == small.json["events"]
    assert large.headers["ETag"]
