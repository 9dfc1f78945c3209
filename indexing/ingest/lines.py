"""Cuts a stream of bytes into lines, with where each one began and without holding a huge one.

Pure: bytes are handed in, lines come out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# An event with 1,500 unsuccessful checks, each with both of its URLs, comes to half of this.
MAX_LINE_BYTES: Final = 1024 * 1024

# How much of a line that is too long is kept, to recognise it by.
KEPT_BYTES: Final = 4 * 1024

# A piece of nothing but line feeds becomes as many lines at once.
_PIECE_BYTES: Final = 64 * 1024

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line feed.

    `number` counts from 1; `offset` is where the line begins, in bytes of the decompressed
    stream. `defect` says why the line cannot be used; `data` is then what there is of it, or its
    beginning, and `cut` says that there was more.
    """

    number: int
    offset: int
    data: bytes
    defect: str | None = None
    cut: bool = False


def split_lines(content: bytes) -> Iterator[Line]:
    """The lines of a text that is in memory as a whole."""
    splitter = LineSplitter()
    for start in range(0, len(content), _PIECE_BYTES):
        yield from splitter.feed(content[start : start + _PIECE_BYTES])
    yield from splitter.finish()


class LineSplitter:
    """Takes chunks of any size and gives lines; only the unfinished one is held, up to a limit.

    A byte order mark in front of the first line is passed over.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._length = 0
        self._number = 1
        self._offset = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that end in this chunk; the iterator has to be used up."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield self._close(end)
        self._hold(rest)

    def finish(self, defect: str | None = None) -> Iterator[Line]:
        """The last line, where no line feed ended it or a defect of the stream did."""
        if self._length or defect is not None:
            yield self._close(b"", defect)

    def _hold(self, piece: bytes) -> None:
        self._length += len(piece)
        self._held += piece[: max(0, self._limit - len(self._held))]

    def _close(self, end: bytes, defect: str | None = None) -> Line:
        self._hold(end)
        data = bytes(self._held)
        number, offset, length = self._number, self._offset, self._length
        self._number += 1
        self._offset += length + 1
        self._length = 0
        self._held.clear()
        if length > self._limit:
            defect = defect or f"the line has {length} bytes, and {self._limit} are allowed"
            return Line(number, offset, data[:KEPT_BYTES], defect, cut=True)
        if number == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        return Line(number, offset, data, defect)
