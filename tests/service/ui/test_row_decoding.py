"""Long lists are decoded row by row, so that other requests are answered in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from json import JSONDecodeError
from types import ModuleType
from typing import Any, cast

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from indexing import yielding
from indexing.events.json_text import encode
from indexing.models.quarantines import QuarantineRequest
from service.http.operations import Operation
from service.middleware.layer import RouteHandler
from service.ui import row_decoding
from service.ui.dashboard import DASHBOARD
from service.ui.pages import events, overview, quarantines
from service.ui.recovered import find_recovered
from service.ui.row_decoding import decode_rows
from service.ui.trees import draw_tree
from tests.builders import WIDGETS, after, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG
from tests.service.ui.signed_in import read, sign_in

# With brackets, quotes and separators, as in the text around a row.
NASTY = st.text(alphabet='{}[],:"\\é😀\n a', max_size=20)
ROWS = st.lists(
    st.dictionaries(NASTY, NASTY | st.integers() | st.lists(NASTY, max_size=3), max_size=3),
    max_size=4,
)


def make_body(rows: list[Any]) -> bytes:
    return encode({"size": len(rows), "per_page": None, "rows": rows})


async def decode_all(body: bytes) -> list[Any]:
    return [row async for row in decode_rows(body, "rows")]


@given(ROWS, st.integers(1, 60))
def test_rows_are_the_same_wherever_windows_end(rows: list[Any], window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_decoding, "WINDOW_BYTES", window)
        assert asyncio.run(decode_all(make_body(rows))) == rows


async def test_a_body_that_ends_early_is_refused() -> None:
    body = make_body([{"a": 1}, {"b": [2]}])
    for end in range(body.index(b"[{") + 1, len(body) - 2):
        with pytest.raises(JSONDecodeError):
            await decode_all(body[:end])


@asynccontextmanager
async def count_turns(patch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """Count the turns of the event loop; work yields whenever it can."""
    patch.setattr(yielding, "WORK_SECONDS", 0.0)
    turns = [0]

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        yield turns
    finally:
        counting.cancel()


async def test_the_loop_turns_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    async with count_turns(monkeypatch) as turns:
        body = make_body([{"id": number} for number in range(20)])
        seen = [turns[0] async for _ in decode_rows(body, "rows")]
    assert len(set(seen)) == 20


async def test_the_loop_turns_between_the_events_of_a_page(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await door.store.ensure_repository(WIDGETS)
    await door.store.write_events(
        [
            make_event(number, after(minutes=-number), metadata={"text": f"number {number}"})
            for number in range(1, 11)
        ]
    )
    client = await sign_in(door)
    async with count_turns(monkeypatch) as turns:
        seen = []

        def draw(*about: Any) -> Any:
            seen.append(turns[0])
            return draw_tree(*about)

        monkeypatch.setattr(events, "draw_tree", draw)
        page = await read(client, LOG)
    assert len(set(seen)) == 10
    assert "number 10" in page


@pytest.mark.parametrize(
    ("path", "module"),
    [("/ui/acme/widgets", overview), ("/ui/acme/widgets/quarantines", quarantines)],
)
async def test_the_loop_turns_between_the_quarantines_of_a_repository(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, path: str, module: ModuleType
) -> None:
    for number in range(150):
        request = QuarantineRequest(f"test {number}", "flaps")
        await door.store.add_quarantine(WIDGETS, request, after(days=-number))
    client = await sign_in(door)
    reads = door.app[DASHBOARD].handlers.reads
    read_list, begun = reads[Operation.QUARANTINES], []
    async with count_turns(monkeypatch) as turns:

        async def answer(request: web.Request) -> web.StreamResponse:
            response = await read_list(request)
            begun.append(turns[0])
            return response

        async def find(*about: Any) -> Any:
            found = await find_recovered(*about)
            took.append(turns[0] - begun[-1])
            return found

        took: list[int] = []
        monkeypatch.setitem(
            cast("dict[Operation, RouteHandler]", reads), Operation.QUARANTINES, answer
        )
        monkeypatch.setattr(module, "find_recovered", find)
        await read(client, path)
    assert took[0] >= 150


async def test_many_pages_decode_their_rows_one_after_the_other(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        request = QuarantineRequest(f"test {number}", "flaps")
        await door.store.add_quarantine(WIDGETS, request, after(days=-number))
    client = await sign_in(door)
    decode = row_decoding._raw_decode
    async with count_turns(monkeypatch) as turns:
        decoded = Counter[int]()

        def decode_next(*about: Any) -> Any:
            decoded[turns[0]] += 1
            return decode(*about)

        monkeypatch.setattr(row_decoding, "_raw_decode", decode_next)
        await asyncio.gather(*(read(client, "/ui/acme/widgets") for _ in range(8)))
    assert decoded.total() == 8 * 50
    # The next page may begin before the turn of this page is counted.
    assert max(decoded.values()) <= 2


async def test_a_call_that_is_tried_decodes_no_more_than_is_shown(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await door.store.ensure_repository(WIDGETS)
    client = await sign_in(door)
    body = b'{"quarantined_tests":[{"reason":"long"},' + b'{"reason":"x"},' * 50_000

    async def answer(_request: web.Request) -> web.StreamResponse:
        # To decode it to its end would fail.
        return web.Response(body=body)

    reads = door.app[DASHBOARD].handlers.reads
    monkeypatch.setitem(cast("dict[Operation, RouteHandler]", reads), Operation.QUARANTINES, answer)
    call = "operation=listQuarantines&try=1&owner=acme&repository=widgets"
    page = await read(client, f"/ui/docs?{call}")
    assert "&#34;reason&#34;: &#34;long&#34;" in page
