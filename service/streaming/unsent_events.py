"""Counts the events that streams keep for clients that read slowly, and limits them.

Streams of one repository share their text, which counts once. But the streams of one credential may
be of a thousand repositories, and an event may have a megabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from service.http.held_bytes import HeldBytes
from service.streaming.response import BrokenStreamError

# Of one process, and of the data of one owner: some hundreds of the largest reads. Clients that
# read need few at once.
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_BYTES_PER_OWNER: Final = 64 * 1024 * 1024

NO_ROOM: Final = "too many events are not read"


class UnsentEvents:
    """The unsent texts of one process, by the owner of their repository."""

    def __init__(self) -> None:
        self._held = HeldBytes()

    @property
    def size(self) -> int:
        """The bytes of all texts."""
        return self._held.total

    def hold(self, text: bytes, owner: str) -> bool:
        """Count a text for one more stream; return false, and count nothing, if it has no room."""
        has_room = self._held.has_room(text, owner, MAX_BYTES_PER_OWNER, MAX_BYTES)
        if has_room:
            self._held.hold(text, owner)
        return has_room

    def release(self, text: bytes, owner: str) -> None:
        """Count a text for one stream less."""
        self._held.release(text, owner)

    @contextmanager
    def keep(self, text: bytes, owner: str) -> Iterator[None]:
        """Count a text of one stream until the context exits.

        Raises:
            BrokenStreamError: it has no room.
        """
        if not self.hold(text, owner):
            raise BrokenStreamError(NO_ROOM)
        try:
            yield
        finally:
            self.release(text, owner)
