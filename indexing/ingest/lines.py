"""Splits a byte stream into lines with their offsets, without holding a huge line in memory.

Pure: bytes in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# The longest line. An event with 1,500 failed checks, each with both of its URLs, takes half of
# this.
MAX_LINE_BYTES: Final = 1024 * 1024

# The bytes that are kept of a line that is too long, to identify it.
KEPT_BYTES: Final = 4 * 1024

# The bytes that are split at once: a piece of line feeds only becomes this many lines.
_PIECE_BYTES: Final = 64 * 1024

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line feed.

    `number` counts from 1; `offset` is the start of the line, in bytes of the decompressed stream.
    `defect` says why the line cannot be used, None if it can. `cut` says whether `data` is only the
    beginning of the line.
    """

    number: int
    offset: int
    data: bytes
    defect: str | None = None
    cut: bool = False


def split_lines(content: bytes) -> Iterator[Line]:
    """Split a text that is completely in memory into lines."""
    splitter = LineSplitter()
    for start in range(0, len(content), _PIECE_BYTES):
        yield from splitter.feed(content[start : start + _PIECE_BYTES])
    yield from splitter.finish()


class LineSplitter:
    """Splits chunks of any size into lines; buffers only the unfinished line, up to a limit.

    A byte order mark before the first line is skipped.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._length = 0
        self._number = 1
        self._offset = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that end in this chunk; consume the iterator completely."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield self._close(end)
        self._hold(rest)

    def finish(self, defect: str | None = None) -> Iterator[Line]:
        """Yield the last line, if it has no line feed; `defect` says why the stream broke."""
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
