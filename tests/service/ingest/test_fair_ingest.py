"""Large bodies of one sender do not delay small ones of others; cost grows linearly with size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from indexing.ingest.bodies import read_events, read_spans
from indexing.models.keys import Scope
from indexing.otlp.requests import PROTOBUF
from service.ingest import limiter
from service.ingest.limiter import (
    LARGE_AT_ONCE,
    LARGE_AT_ONCE_PER_SENDER,
    LIMITER,
    SMALL_BODY_BYTES,
    RequestBodyLimiter,
)
from service.middleware import fair_queue
from tests.builders import NOON, WIDGETS
from tests.growth import Prepare, assert_linear
from tests.service.front_door import LOGS, FrontDoor, hold_up
from tests.service.handlers.sending import NDJSON, TRACES, make_line
from tests.service.processes import TIMEOUT
from tests.service.wire import Wire
from tests.spans import make_request, make_span, write
from tests.waiting import until


def spans(count: int, run: str = "1") -> bytes:
    request = make_request(
        [make_span(f"test {n}", span_id=(n + 1).to_bytes(8, "big")) for n in range(count)],
        {"cicd.pipeline.run.id": run},
    )
    return write(request, PROTOBUF)


async def test_a_small_body_is_written_while_another_senders_large_ones_are(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = spans(1_000)
    assert len(large) > SMALL_BODY_BYTES
    other = await open_.new_key(Scope.INGEST, "umbrella")
    held = hold_up(open_, monkeypatch, "refresh_tests")
    flood = [asyncio.create_task(open_.post(TRACES, large, PROTOBUF)) for _ in range(3)]
    await held.wait_for_one_of(*flood)
    monkeypatch.undo()
    # Now all large bodies are held before their end, or wait for a slot.
    target = "/v1/ci/umbrella/repositories/widgets/traces"
    small = await open_.post(target, spans(1), PROTOBUF, key=other)
    assert small.status == 200
    assert sum(task.done() for task in flood) <= len(flood) - LARGE_AT_ONCE_PER_SENDER
    held.released.set()
    assert {(await task).status for task in flood} <= {200, 503}


async def test_a_large_body_is_written_while_those_of_another_sender_wait(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await open_.new_key(Scope.INGEST, "umbrella")
    store: Any = open_.reader
    refresh, released = store.refresh_tests, asyncio.Event()

    async def refresh_slowly(now: Any, progress: Any, repository: Any, changed: Any) -> Any:
        if repository == WIDGETS:
            await released.wait()
        return await refresh(now, progress, repository, changed)

    monkeypatch.setattr(store, "refresh_tests", refresh_slowly)
    bodies = [spans(1_000, str(number)) for number in range(LARGE_AT_ONCE)]
    flood = [asyncio.create_task(open_.post(TRACES, body, PROTOBUF)) for body in bodies]
    slots = open_.app[LIMITER]._large_slots
    await until(lambda: len(slots._waiting) + slots._running.total() == LARGE_AT_ONCE)
    target = "/v1/ci/umbrella/repositories/widgets/traces"
    assert (await open_.post(target, bodies[0], PROTOBUF, key=other)).status == 200
    released.set()
    assert {(await task).status for task in flood} <= {200, 503}


async def test_large_bodies_leave_memory_for_small_ones(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = spans(1_000)
    monkeypatch.setattr(limiter, "MAX_HELD_BYTES", len(large) + 1_000)
    monkeypatch.setattr(limiter, "HELD_FOR_SMALL_BYTES", 2_000)
    assert (await open_.post(TRACES, large, PROTOBUF)).status == 503
    assert (await open_.post(TRACES, spans(1), PROTOBUF)).status == 200


async def test_uploads_that_do_not_arrive_leave_room_for_other_requests(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiving = asyncio.Semaphore(0)
    receive = RequestBodyLimiter.receive

    def note(made: RequestBodyLimiter, *about: Any) -> Any:
        receiving.release()
        return receive(made, *about)

    # From its second request on, the key has a queue of its own.
    assert (await open_.get(LOGS)).status == 200
    monkeypatch.setattr(RequestBodyLimiter, "receive", note)
    monkeypatch.setattr(fair_queue, "MAX_RUNNING_PER_TENANT", 2)
    wires = [await Wire.open(open_) for _ in range(2)]
    for wire in wires:
        head = wire.head(LOGS, f"Content-Type: {NDJSON}", "Content-Length: 1000")
        wire.writer.write(head.replace(b"GET", b"POST"))
        await receiving.acquire()
    assert (await asyncio.wait_for(open_.get(LOGS), TIMEOUT)).status == 200
    for wire in wires:
        await wire.close()


def read_lines(count: int) -> Callable[[], None]:
    content = b"".join(make_line(number, trigger="x" * 200) for number in range(count))

    def read() -> None:
        assert sum(item is not None for item in read_events(WIDGETS, NOON, content)) == count

    return read


def read_wrong_lines(count: int) -> Callable[[], None]:
    content = b"".join(make_line(number, type="nothing") for number in range(count))

    def read() -> None:
        assert len([*read_events(WIDGETS, NOON, content)]) > count

    return read


def read_conditions(count: int) -> Callable[[], object]:
    metadata: object = {"conditions_evaluation": {"subconditions": [{}] * count}}
    content = orjson.dumps({"type": "action.queue.leave", "metadata": metadata})
    return lambda: [*read_events(WIDGETS, NOON, content)]


@pytest.mark.parametrize(
    ("prepare", "count"), [(read_lines, 200), (read_wrong_lines, 200), (read_conditions, 1_000)]
)
def test_the_time_for_lines_grows_linearly(prepare: Prepare, count: int) -> None:
    assert_linear(prepare, count)


def test_the_time_for_spans_grows_linearly() -> None:
    def prepare(count: int) -> Callable[[], None]:
        content = spans(count)

        def read() -> None:
            assert len([*read_spans(WIDGETS, PROTOBUF, NOON, content)]) > count

        return read

    assert_linear(prepare, 200)
