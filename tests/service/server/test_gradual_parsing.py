"""What clients send is parsed in pieces, so that no data blocks the event loop for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import orjson
import pytest
from aiohttp.web import RequestHandler
from yarl import URL

from indexing.models.keys import Scope
from service.config.settings import Settings
from service.http.targets import MAX_PARSED_BYTES
from service.server import gradual_parsing
from service.server.gradual_parsing import PIECE_BYTES, GradualParsing, ParsingTurns
from tests.builders import after
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, FrontDoor
from tests.service.handlers.sending import make_line

# The sockets know no store.
OVER_SQLITE = pytest.mark.parametrize("stack", ["sqlite"], indirect=True)

# More than the parser takes before it waits for their reader.
CHUNKS = 20_000


@pytest.fixture
async def open_(stack: Settings) -> AsyncIterator[FrontDoor]:
    """A service that accepts events."""
    async for opened in open_door(replace(stack, ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        opened.clock.now = after(hours=1)
        yield opened


class Pieces:
    """How many bytes are parsed at once, and in one iteration of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.longest = self.most = self._now = 0
        parse = GradualParsing._parse

        def note(connection: GradualParsing, data: bytes) -> None:
            if not self._now:
                # Before anything is parsed in the next iteration.
                asyncio.get_running_loop().call_soon(self._begin_iteration)
            self._now += len(data)
            self.longest, self.most = max(self.longest, len(data)), max(self.most, self._now)
            parse(connection, data)

        monkeypatch.setattr(GradualParsing, "_parse", note)

    def _begin_iteration(self) -> None:
        self._now = 0


async def connect(door: FrontDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    url = URL(door.base)
    return await asyncio.open_connection(url.host, url.port)


def in_tiny_chunks(key: str, body: bytes) -> bytes:
    """Return the request of an upload in chunks of one byte."""
    head = (
        f"POST {LOGS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    return head.encode() + chunks + b"0\r\n\r\n"


async def read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    _, _, length = head.lower().partition(b"content-length: ")
    return int(head.split()[1]), await reader.readexactly(int(length.split()[0]))


@OVER_SQLITE
@pytest.mark.parametrize("is_known", [True, False])
async def test_an_iteration_parses_no_more_than_it_has_time_for(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    # Every piece takes longer.
    monkeypatch.setattr(gradual_parsing, "PARSING_SECONDS", 1e-9)
    pieces = Pieces(monkeypatch)
    reader, writer = await connect(open_)
    writer.write(in_tiny_chunks(open_.key if is_known else "unknown", b"\n" * CHUNKS))
    assert (await read(reader))[0] == (200 if is_known else 403)
    writer.close()
    assert 0 < pieces.longest <= PIECE_BYTES
    assert pieces.most <= PIECE_BYTES


@OVER_SQLITE
async def test_a_body_in_tiny_chunks_arrives_whole(open_: FrontDoor) -> None:
    body = b"".join(map(make_line, range(3)))
    reader, writer = await connect(open_)
    # Both requests, so that the second begins in a piece of the first.
    sent = in_tiny_chunks(open_.key, body.ljust(CHUNKS, b"\n"))
    writer.write(sent + in_tiny_chunks(open_.key, body))
    first, second = await read(reader), await read(reader)
    writer.close()
    assert (first[0], orjson.loads(first[1])["written"]) == (200, 3)
    assert (second[0], orjson.loads(second[1])["unchanged"]) == (200, 3)


@OVER_SQLITE
async def test_requests_that_are_sent_at_once_are_all_answered(open_: FrontDoor) -> None:
    # Far more than the parser keeps, and some of them begin in one piece and end in another.
    count = 20 * PIECE_BYTES // 50
    reader, writer = await connect(open_)
    writer.write(b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n" * count)
    assert [(await read(reader))[0] for _ in range(count)] == [200] * count
    writer.close()


@OVER_SQLITE
async def test_what_follows_a_malformed_request_is_not_answered(open_: FrontDoor) -> None:
    reader, writer = await connect(open_)
    writer.write(b"GET / HTTP/1.1\r\nHost\r\n\r\n" * PIECE_BYTES)
    answers = await reader.read()
    writer.close()
    assert answers.startswith(b"HTTP/1.0 400")
    assert answers.count(b"HTTP/1.") == 1


@OVER_SQLITE
async def test_what_follows_a_request_that_is_too_long_is_not_parsed(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse, parsed = RequestHandler.data_received, list[int]()

    def note(connection: RequestHandler, data: bytes) -> None:
        parsed.append(len(data))
        parse(connection, data)

    monkeypatch.setattr(RequestHandler, "data_received", note)
    reader, writer = await connect(open_)
    # All of it is received before the request is refused.
    writer.write(b"GET /?" + b"a" * 50 * PIECE_BYTES)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.0 414")
    assert MAX_PARSED_BYTES <= sum(parsed) <= MAX_PARSED_BYTES + 2 * PIECE_BYTES


async def test_slow_data_waits_for_all_other_data_and_takes_turns() -> None:
    turns, taken = ParsingTurns(), list[str]()
    for name in ("slow 1", "slow 2", "quick 1", "quick 2"):
        turns.add(partial(taken.append, name), is_slow=name.startswith("slow"))
    await asyncio.sleep(0)
    assert taken == ["quick 1", "quick 2", "slow 1"]
    turns.add(partial(taken.append, "quick 3"), is_slow=False)
    assert not turns.has_time
    await asyncio.sleep(0)
    assert taken[3:] == ["quick 3", "slow 2"]


async def test_an_iteration_without_time_leaves_the_rest_to_the_next() -> None:
    turns, taken = ParsingTurns(), list[int]()

    def take(number: int) -> None:
        taken.append(number)
        turns.spend(gradual_parsing.PARSING_SECONDS)

    for number in range(3):
        turns.add(partial(take, number), is_slow=number == 2)
    for number in range(3):
        await asyncio.sleep(0)
        assert taken == list(range(number + 1))
        assert not turns.has_time
    await asyncio.sleep(0)
    assert turns.has_time
