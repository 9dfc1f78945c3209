"""Splits the chunks of a response into lines and server-sent events. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Well above the longest line: the service accepts events of at most 1 MiB.
MAX_LINE_BYTES: Final = 8 * 1024 * 1024


class LineTooLongError(Exception):
    """A line is longer than any line that the service sends."""


class LineBuffer:
    """Splits chunks into lines, in time linear in the size of the chunks."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """Whether no incomplete line is buffered."""
        return not self._size

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their line breaks.

        Raises:
            LineTooLongError: a line exceeds `MAX_LINE_BYTES`.
        """
        first, *others = chunk.split(b"\n")
        self._pieces.append(first)
        self._size += len(first)
        if self._size > MAX_LINE_BYTES:
            raise LineTooLongError
        if not others:
            return []
        lines = [b"".join(self._pieces), *others[:-1]]
        self._pieces, self._size = [others[-1]], len(others[-1])
        return lines


@dataclass(frozen=True, slots=True)
class Message:
    """One server-sent event with data."""

    id: str
    data: bytes


class MessageReader:
    """Reads server-sent events as this service writes them.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """

    def __init__(self, last_id: str | None = None) -> None:
        # The id of the last complete message, which may have had no data.
        self.last_id = last_id
        # How long to wait before reconnecting, if the service sent `retry`.
        self.retry_seconds: float | None = None
        self._lines = LineBuffer()
        self._id = last_id
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Message]:
        """Return the messages that this chunk completes; raises as `LineBuffer.feed` does."""
        found = []
        for line in self._lines.feed(chunk):
            field = line.removesuffix(b"\r")
            if field:
                self._take(*field.split(b":", 1))
                continue
            self.last_id = self._id
            if self._data:
                found.append(Message(self._id or "", b"\n".join(self._data)))
            self._data = []
        return found

    def _take(self, name: bytes, value: bytes = b"") -> None:
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit():
            self.retry_seconds = int(value[:10]) / 1_000

    def reconnect(self) -> None:
        """Discard the incomplete message of a connection that ended."""
        self._lines = LineBuffer()
        self._id = self.last_id
        self._data = []
