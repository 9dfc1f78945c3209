"""Counts the events that streams keep for clients that read slowly, and limits them.

Streams of one repository share their text, which counts once. But the streams of one credential may
be of a thousand repositories, and an event may have a megabyte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from service.streaming.response import BrokenStreamError

# Of one process, and of the data of one owner: some hundreds of the largest reads. Clients that
# read need few at once.
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_BYTES_PER_OWNER: Final = 64 * 1024 * 1024

NO_ROOM: Final = "too many events are not read"


class UnsentEvents:
    """The unsent texts of one process."""

    def __init__(self) -> None:
        # How many streams hold a text, by its id.
        self._holders: Counter[int] = Counter()
        self._bytes_of: Counter[str] = Counter()

    @property
    def size(self) -> int:
        """The bytes of all texts."""
        return self._bytes_of.total()

    def hold(self, text: bytes, owner: str) -> bool:
        """Count a text for one more stream; return false, and count nothing, if it has no room."""
        if not self._holders[id(text)]:
            of_owner = self._bytes_of[owner] + len(text)
            if of_owner > MAX_BYTES_PER_OWNER or self.size + len(text) > MAX_BYTES:
                return False
            self._bytes_of[owner] = of_owner
        self._holders[id(text)] += 1
        return True

    def release(self, text: bytes, owner: str) -> None:
        """Count a text for one stream less. Until then, the stream keeps it, and so its id."""
        self._holders[id(text)] -= 1
        if not self._holders[id(text)]:
            del self._holders[id(text)]
            self._bytes_of[owner] -= len(text)
            if not self._bytes_of[owner]:
                del self._bytes_of[owner]

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
