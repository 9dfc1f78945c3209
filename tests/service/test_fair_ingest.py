"""One sender's large bodies keep nobody else's small one waiting; more sent costs linearly more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from indexing.ingest.bodies import PROTOBUF, read_events, read_spans
from indexing.models.keys import Scope
from service.intake import LARGE_AT_ONCE_OF_ONE, SMALL_BODY_BYTES
from service.settings import Settings
from tests.builders import NOON, WIDGETS
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor, hold_up
from tests.service.test_sent_events import make_line
from tests.service.test_traces import TRACES
from tests.spans import make_request, make_span, write

# What four times as much may cost: linear, with room for what else a machine does.
LINEAR = 6.0


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
    await held.arrived.wait()
    monkeypatch.undo()
    # All of the large ones are held up before their end by now, or wait for their turn.
    target = "/v1/ci/umbrella/repositories/widgets/traces"
    small = await open_.post(target, spans(1), PROTOBUF, key=other)
    assert small.status == 200
    assert sum(task.done() for task in flood) <= len(flood) - LARGE_AT_ONCE_OF_ONE
    held.released.set()
    assert {(await task).status for task in flood} <= {200, 503}


def growth(few: Callable[[], object], many: Callable[[], object]) -> float:
    """How many times the processor time of `few` that of `many` is, in the quietest round."""
    return min(seconds_of(many) / seconds_of(few) for _ in range(3))


def seconds_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def read_lines(count: int) -> None:
    content = b"".join(make_line(number, trigger="x" * 200) for number in range(count))
    assert sum(item is not None for item in read_events(WIDGETS, NOON, content)) == count


def read_wrong_lines(count: int) -> None:
    content = b"".join(make_line(number, type="nothing") for number in range(count))
    assert len([*read_events(WIDGETS, NOON, content)]) > count


def read_conditions(count: int) -> None:
    wrong = {"type": "action.queue.leave", "metadata": {"conditions_evaluation": {}}}
    wrong["metadata"]["conditions_evaluation"]["subconditions"] = [{}] * count  # type: ignore[index]
    [*read_events(WIDGETS, NOON, orjson.dumps(wrong))]


@pytest.mark.parametrize(
    ("read", "count"),
    [(read_lines, 1_000), (read_wrong_lines, 1_000), (read_conditions, 2_000)],
)
def test_the_time_for_lines_grows_linearly(read: Callable[[int], None], count: int) -> None:
    assert growth(lambda: read(count), lambda: read(4 * count)) <= LINEAR


def test_the_time_for_spans_grows_linearly() -> None:
    few, many = spans(1_000), spans(4_000)

    def read(content: bytes) -> None:
        assert len([*read_spans(WIDGETS, PROTOBUF, NOON, content)]) > 1_000

    assert growth(lambda: read(few), lambda: read(many)) <= LINEAR
