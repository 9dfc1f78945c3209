"""POST .../logs over HTTP: an NDJSON request, counts in the response, and the stored events."""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from openapi_schema_validator import OAS31Validator

from indexing.errors import StoreUnavailableError
from indexing.ingest.bodies import MAX_LINES, REPORTED_REFUSALS
from indexing.models.keys import Scope
from indexing.store import open_store
from indexing.timestamps import format_timestamp
from service.config.settings import Settings
from service.ingest.request_body import QUICK_BODY_BYTES
from tests.builders import NOON, after
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, FrontDoor, Held, assert_problem, hold_up
from tests.service.handlers.sending import NDJSON, make_line


@pytest.fixture
async def open_(stack: Settings) -> AsyncIterator[FrontDoor]:
    """A service that accepts events, and a key with all permissions."""
    async for opened in open_door(replace(stack, ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        opened.clock.now = after(hours=1)
        yield opened


def counts(*numbers: int) -> dict[str, int]:
    return dict(zip(("read", "written", "unchanged", "refused"), numbers, strict=True))


@pytest.mark.parametrize(
    "kind", [NDJSON, "application/ndjson", "text/plain", "text/x-anything; charset=utf-8", None]
)
@pytest.mark.parametrize("packed", [False, True])
async def test_events_that_are_sent_are_in_the_log(
    open_: FrontDoor, kind: str | None, packed: bool
) -> None:
    body = b"".join(make_line(number) for number in range(3))
    headers = {"Content_Encoding": "gzip"} if packed else {}
    sent = gzip.compress(body) if packed else body
    first = await open_.post(LOGS, sent, kind, **headers)
    again = await open_.post(LOGS, sent, kind, **headers)
    assert (first.status, first.json) == (200, {**counts(3, 3, 0, 0), "refusals": []})
    assert (again.status, again.json) == (200, {**counts(3, 0, 3, 0), "refusals": []})
    assert [event["id"] for event in (await open_.get(LOGS)).json["events"]] == [2, 1, 0]


async def test_refusals_have_their_position_and_the_rest_is_stored(
    open_: FrontDoor,
) -> None:
    lines = [
        make_line(1),
        b"\n",
        b"nonsense\n",
        make_line(2, "acme/gadgets"),
        make_line(3, type="action.dance"),
        make_line(4, "ACME/Widgets"),
    ]
    answer = await open_.post(LOGS, b"".join(lines), NDJSON)
    assert {name: answer.json[name] for name in counts(0, 0, 0, 0)} == counts(5, 2, 0, 3)
    told = answer.json["refusals"]
    offsets = [sum(len(line) for line in lines[:at]) for at in (2, 3, 4)]
    assert [(refusal["line"], refusal["offset"]) for refusal in told] == [
        (3, offsets[0]),
        (4, offsets[1]),
        (5, offsets[2]),
    ]
    assert "is not JSON" in told[0]["reason"]
    assert "only events of acme/widgets are taken here" in told[1]["reason"]
    assert "none of the 41 event types" in told[2]["reason"]
    schema = (await open_.ask("/openapi.json", {})).json
    OAS31Validator({"$ref": "#/components/schemas/EventIntake", **schema}).validate(answer.json)


async def test_an_event_of_a_wrong_clock_is_refused_by_name(open_: FrontDoor) -> None:
    lines = [
        make_line(1, received_at="1999-12-31T23:59:59Z"),
        make_line(2, received_at=format_timestamp(after(days=2))),
        make_line(3),
    ]
    answer = await open_.post(LOGS, b"".join(lines), NDJSON)
    assert {name: answer.json[name] for name in counts(0, 0, 0, 0)} == counts(3, 1, 0, 2)
    reasons = [refusal["reason"] for refusal in answer.json["refusals"]]
    assert reasons[0] == "received_at: is before 2000-01-01T00:00:00Z"
    assert reasons[1].startswith("received_at: is more than a day ahead of this machine's clock")


async def test_the_first_refusals_are_listed_and_all_are_counted(open_: FrontDoor) -> None:
    answer = await open_.post(LOGS, b"no\n" * (REPORTED_REFUSALS + 7), NDJSON)
    assert answer.json["refused"] == REPORTED_REFUSALS + 7
    assert [refusal["line"] for refusal in answer.json["refusals"]] == [
        *range(1, REPORTED_REFUSALS + 1)
    ]


async def test_a_body_of_nothing_but_line_ends_is_too_large(open_: FrontDoor) -> None:
    answer = await open_.post(LOGS, b"\n" * (MAX_LINES + 1), NDJSON)
    assert_problem(413, answer.headers["Content-Type"], answer.body)


async def test_an_event_that_stands_there_already_with_other_content_is_refused(
    open_: FrontDoor,
) -> None:
    await open_.post(LOGS, make_line(1), NDJSON)
    answer = await open_.post(LOGS, make_line(1, trigger="another"), NDJSON)
    assert answer.json["refused"] == 1
    assert "another event is stored" in answer.json["refusals"][0]["reason"]


async def test_a_long_line_does_not_hold_up_the_others(open_: FrontDoor) -> None:
    long = make_line(1, newer=["x" * 50] * (QUICK_BODY_BYTES // 25))
    assert len(long) > 2 * QUICK_BODY_BYTES
    sending = asyncio.create_task(open_.post(LOGS, long * 3 + make_line(2), NDJSON))
    assert (await open_.get("/health/ready")).status == 200
    assert (await sending).json == {**counts(4, 2, 2, 0), "refusals": []}


async def test_a_repository_becomes_known_by_its_first_event(open_: FrontDoor) -> None:
    target = "/v1/repos/acme/brand.new/logs"
    assert (await open_.post(target, b"", NDJSON)).json["read"] == 0
    assert (await open_.get(target)).status == 404
    await open_.post(target, make_line(1, "acme/brand.new"), NDJSON)
    assert [event["id"] for event in (await open_.get(target)).json["events"]] == [1]


async def test_another_kind_of_body_is_refused(open_: FrontDoor) -> None:
    for kind in ("application/json", "application/x-www-form-urlencoded", "image/png"):
        answer = await open_.post(LOGS, make_line(1), kind)
        assert answer.status == 415
        assert_problem(415, answer.headers["Content-Type"], answer.body)


async def test_without_the_setting_the_log_is_for_reading_alone(door: FrontDoor) -> None:
    key = await door.new_key(Scope.ADMIN)
    answer = await door.post(LOGS, make_line(1), NDJSON, key=key)
    assert answer.status == 405
    assert {*answer.headers["Allow"].split(",")} == {"GET", "HEAD"}


async def test_with_the_setting_allow_lists_all_three_methods(open_: FrontDoor) -> None:
    answer = await open_.get(LOGS, method="DELETE")
    assert answer.status == 405
    assert {*answer.headers["Allow"].split(",")} == {"GET", "HEAD", "POST"}


@pytest.fixture
def held(open_: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> Held:
    return hold_up(open_, monkeypatch, "write_events")


async def go_away(door: FrontDoor, held: Held) -> None:
    """Send an event, and disconnect while it is written."""
    gone = asyncio.create_task(door.post(LOGS, make_line(1), NDJSON))
    await held.arrived.wait()
    gone.cancel()
    # The server handles the disconnect before this request.
    await door.get("/health/live")


async def test_a_started_write_finishes_after_the_client_disconnects(
    open_: FrontDoor, held: Held
) -> None:
    await go_away(open_, held)
    held.released.set()
    await asyncio.wait_for(held.ended.wait(), 10)
    assert [event["id"] for event in (await open_.get(LOGS)).json["events"]] == [1]


async def test_a_stopping_service_finishes_writes_of_disconnected_clients(
    open_: FrontDoor, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.middleware.shielded_work.FINISH_SECONDS", 60.0)
    await go_away(open_, held)
    ending = asyncio.create_task(open_.runner.cleanup())
    await asyncio.sleep(0)
    held.released.set()
    await ending
    store = await open_store(open_.settings.store)
    assert (await store.get_status(NOON)).events == 1
    await store.close()


async def test_a_service_that_ends_does_not_wait_for_ever(
    open_: FrontDoor, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.middleware.shielded_work.FINISH_SECONDS", 0.01)
    await go_away(open_, held)
    await asyncio.wait_for(open_.runner.cleanup(), 60)
    assert not held.ended.is_set()


async def test_an_error_after_the_client_disconnected_is_logged(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: stray.append(about))

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("database is locked")

    monkeypatch.setattr(open_.reader, "write_events", fail)
    held = hold_up(open_, monkeypatch, "write_events")
    await go_away(open_, held)
    held.released.set()
    await held.ended.wait()
    await open_.get("/health/live")
    gc.collect()
    assert stray == []
