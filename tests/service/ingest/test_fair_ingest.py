"""Large bodies of one sender do not delay small ones of others; cost grows linearly with size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from indexing.ingest.bodies import read_events, read_spans
from indexing.models.keys import Scope
from indexing.otlp.requests import PROTOBUF
from service.config.settings import Settings
from service.ingest.limiter import LARGE_AT_ONCE_PER_SENDER, SMALL_BODY_BYTES
from tests.builders import NOON, WIDGETS
from tests.growth import Prepare, assert_linear
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor, hold_up
from tests.service.handlers.sending import TRACES, make_line
from tests.spans import make_request, make_span, write


@pytest.fixture
async def open_(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(replace(Settings(data_dir=tmp_path), ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        yield opened


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
