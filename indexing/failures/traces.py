"""Shortens stack traces to their head and tail, and compresses them. Pure."""

from __future__ import annotations

import zlib
from typing import Final

# A trace of some hundred frames. The failing frame is at one end, which depends on the language.
TRACE_MAX_BYTES: Final = 32 * 1024

# Stands for what is left out.
GAP: Final = "\n[...]\n"
_HALF: Final = (TRACE_MAX_BYTES - len(GAP)) // 2


class TraceBuffer:
    """Collects a text piece by piece; keeps only its head and its tail."""

    def __init__(self) -> None:
        self._head: list[str] = []
        self._room = _HALF
        self._tail: list[str] = []
        self._tail_length = 0
        self._left_out = False

    def add(self, text: str) -> None:
        if self._room:
            piece = text[: self._room]
            self._head.append(piece)
            self._room -= len(piece)
            text = text[len(piece) :]
        if text:
            self._tail.append(text)
            self._tail_length += len(text)
            # Joined only once the tail has doubled, so each character is copied at most twice.
            if self._tail_length > 2 * TRACE_MAX_BYTES:
                self._tail = ["".join(self._tail)[-TRACE_MAX_BYTES:]]
                self._tail_length = TRACE_MAX_BYTES
                self._left_out = True

    def text(self) -> str | None:
        """Return the text within `TRACE_MAX_BYTES`; `None` if it is blank."""
        head, tail = "".join(self._head), "".join(self._tail)
        if self._left_out:
            return _join(head, tail)
        return bound_trace(head + tail)


def bound_trace(text: str) -> str | None:
    """Return a trace within `TRACE_MAX_BYTES` of UTF-8; `None` if it is blank."""
    stripped = text.strip("\r\n").rstrip()
    if len(stripped) <= TRACE_MAX_BYTES and len(stripped.encode()) <= TRACE_MAX_BYTES:
        return stripped if stripped.strip() else None
    return _join(stripped, stripped)


def pack_trace(text: str) -> bytes:
    """Compress a trace from `bound_trace`."""
    return zlib.compress(text.encode())


def unpack_trace(data: bytes) -> str:
    """Return the text that `pack_trace` compressed."""
    return zlib.decompress(data).decode()


def _join(head: str, tail: str) -> str:
    start = head.strip("\r\n")[:_HALF].encode()[:_HALF].decode(errors="ignore")
    end = tail.rstrip()[-_HALF:].encode()[-_HALF:].decode(errors="ignore")
    return start + GAP + end
