"""Responses of one iteration of the event loop are written together, and none of them is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from indexing.identifiers import derive_test_id
from service.http.raw_response import BatchedWrites
from service.server.protocol import Connection
from tests.builders import WIDGETS, load_names
from tests.service.front_door import TESTS, FrontDoor
from tests.service.http.messages import ask, exchange

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}"
UNKNOWN = f"{TESTS}/{derive_test_id(WIDGETS, 'unknown')}"


async def test_all_writes_of_an_iteration_come_after_its_last_callback() -> None:
    done: list[str] = []
    writes, loop = BatchedWrites(), asyncio.get_running_loop()

    def answer(name: str) -> None:
        done.append(f"make {name}")
        writes.add(lambda: done.append(f"write {name}"))

    for name in ("a", "b"):
        loop.call_soon(answer, name)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert done == ["make a", "make b", "write a", "write b"]
    answer("c")
    await asyncio.sleep(0)
    assert done[4:] == ["make c", "write c"]


async def test_answers_to_requests_that_are_sent_together_keep_their_order(
    embedded: FrontDoor,
) -> None:
    await load_names(embedded.store, ["hinge"])
    wanted = [HINGE, UNKNOWN, HINGE, HINGE]
    sent = "".join(ask(embedded, path) for path in wanted)
    answers = await exchange(embedded, sent, *[""] * 3)
    assert [each.status.split()[1] for each in answers] == ["200", "404", "200", "200"]


async def test_an_answer_is_written_before_its_connection_is_closed(
    embedded: FrontDoor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await load_names(embedded.store, ["hinge"])

    def close(_: BatchedWrites, write: Callable[[], None]) -> None:
        connection = getattr(write, "__self__", None)
        assert isinstance(connection, Connection)
        asyncio.get_running_loop().call_soon(connection.force_close)

    monkeypatch.setattr(BatchedWrites, "add", close)
    (answer,) = await exchange(embedded, ask(embedded, HINGE), closed=True)
    assert answer.status == "HTTP/1.1 200 OK"


async def test_repeated_requests_that_are_sent_together_are_all_answered(
    embedded: FrontDoor,
) -> None:
    await load_names(embedded.store, ["hinge"])
    known = ask(embedded, HINGE)
    await exchange(embedded, *[known] * 4)
    answers = await exchange(embedded, known, known * 3, "", "", known)
    assert [each.status for each in answers] == ["HTTP/1.1 200 OK"] * 5
