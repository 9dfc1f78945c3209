"""Responses written as bytes: equal to aiohttp's own, uncached and cached."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from aiohttp.http import StreamWriter
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from service.context import LIFECYCLE
from service.http.raw_response import SHORT_BODY_BYTES, AnswerHeaders, Pieces, write_head
from tests.service.front_door import FrontDoor, operations
from tests.service.http.messages import ask, exchange

LISTS = [operations()[name] for name in ("search", "quarantines", "events")]


@pytest.mark.parametrize("path", LISTS)
async def test_an_answer_says_the_same_first_and_again_and_to_an_older_client(
    embedded: FrontDoor, path: str
) -> None:
    old = ask(embedded, path, "Connection: keep-alive", version="1.0")
    first, again, older = await exchange(embedded, *[ask(embedded, path)] * 2, old)
    assert first.status == "HTTP/1.1 200 OK"
    assert first.lasting == again.lasting
    assert first.body == again.body == older.body
    # aiohttp's own response, because the raw one is only for HTTP/1.1.
    assert older.status == "HTTP/1.0 200 OK"
    assert older.lasting == sorted([*first.lasting, ("connection", "keep-alive")])
    for message in (first, again, older):
        assert parsedate_to_datetime(message.value("date") or "").tzinfo is not None
        assert message.value("x-request-id")


@pytest.mark.parametrize("path", LISTS)
async def test_head_says_what_get_says_and_sends_no_body(embedded: FrontDoor, path: str) -> None:
    got, asked = await exchange(embedded, ask(embedded, path), ask(embedded, path, method="HEAD"))
    assert asked.lasting == got.lasting


async def test_the_connection_is_closed_at_the_client_s_request(embedded: FrontDoor) -> None:
    requests = [ask(embedded, LISTS[0]) for _ in range(2)]
    leaving = ask(embedded, LISTS[0], "Connection: close")
    *staying, last = await exchange(embedded, *requests, leaving, closed=True)
    assert [message.value("connection") for message in staying] == [None, None]
    assert last.value("connection") == "close"


async def test_connection_is_closed_when_the_service_is_on_its_way_out(
    embedded: FrontDoor,
) -> None:
    await exchange(embedded, ask(embedded, LISTS[0]))
    embedded.app[LIFECYCLE].stopping = True
    (last,) = await exchange(embedded, ask(embedded, LISTS[0]), closed=True)
    assert last.value("connection") == "close"


async def test_a_cached_response_has_the_request_id_of_its_own_request(
    embedded: FrontDoor,
) -> None:
    mine = ask(embedded, LISTS[0], "X-Request-Id: mine-1")
    _, again, other = await exchange(embedded, mine, mine, ask(embedded, LISTS[0]))
    assert again.value("x-request-id") == "mine-1"
    assert other.value("x-request-id") != "mine-1"


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\r\n\r\nb"])
def test_a_field_with_a_line_break_is_never_written(value: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        write_head(CIMultiDict({"Link": value, "ETag": '"x"'}), 1)


def test_line_breaks_of_one_field_do_not_make_up_for_another() -> None:
    with pytest.raises(ValueError, match="line break"):
        write_head(CIMultiDict({"A": "x\n\r", "B": "y"}), 1)


@given(
    links=st.lists(st.text('abc<>;="/é', min_size=1), max_size=3),
    ignored=st.none() | st.text("abc,%*", min_size=1),
    negotiated=st.booleans(),
    size=st.integers(0, 10**9),
)
def test_the_head_of_an_answer_is_that_of_all_its_headers(
    links: list[str], ignored: str | None, size: int, *, negotiated: bool
) -> None:
    headers = AnswerHeaders('"0123"', links, ignored, negotiated)
    assert headers.write_head(size) == write_head(headers.to_dict(), size)


@pytest.mark.parametrize("text", ["a\rb", "a\nb", "a\r\nX-Added: b"])
def test_the_head_of_an_answer_takes_no_line_break(text: str) -> None:
    for headers in (
        AnswerHeaders(text, (), None, negotiated=False),
        AnswerHeaders('"0123"', ("</a>", text), None, negotiated=False),
        AnswerHeaders('"0123"', (), text, negotiated=True),
    ):
        with pytest.raises(ValueError, match="line break"):
            headers.write_head(1)


async def test_a_long_body_is_sent_in_pieces() -> None:
    written: list[memoryview] = []

    class Writer(StreamWriter):
        def __init__(self) -> None:
            pass

        async def write(self, chunk: Any, *, drain: bool = True, LIMIT: int = 0) -> None:  # noqa: ARG002, N803
            written.append(chunk)

    body = b"x" * 3 * SHORT_BODY_BYTES
    pieces = Pieces(body)
    assert pieces.size == len(body)
    await pieces.write(Writer())
    await pieces.close()
    # What is not sent yet would keep the whole body in memory.
    assert not any(isinstance(piece, memoryview) for piece in written)
    assert pieces.decode() == ""
    assert all(len(piece) <= SHORT_BODY_BYTES for piece in written)
    assert b"".join(written) == body
