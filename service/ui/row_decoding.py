"""Decodes the rows of a list one by one, so that a long response blocks no other request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from indexing.yielding import LoopYielder

# The bytes of a body that are decoded to text at once, unless a single row is longer.
WINDOW_BYTES: Final = 1024 * 1024

_raw_decode: Final = json.JSONDecoder().raw_decode


async def decode_rows(body: bytes, name: str) -> AsyncIterator[Any]:
    """Yield the objects in the list `name` of a response body, which is compact JSON.

    One call of a JSON parser for the whole body would hold the interpreter's lock (GIL) throughout,
    even in a thread.

    Raises:
        ValueError: the body is not such JSON.
    """
    yielder = LoopYielder()
    start = f'"{name}":['.encode()
    at = body.index(start) + len(start)
    size = WINDOW_BYTES
    while True:
        # The window may end within a row, even within a character.
        text = body[at : at + size].decode(errors="ignore")
        end = 0
        while text[end : end + 1] != "]":
            try:
                row, end = _raw_decode(text, end + text.startswith(",", end))
            except ValueError:
                if not end and at + size >= len(body):
                    raise
                break
            await yielder.yield_if_due()
            yield row
        else:
            return
        await yielder.yield_if_due()
        at += len(text[:end].encode())
        size = WINDOW_BYTES if end else 2 * size
