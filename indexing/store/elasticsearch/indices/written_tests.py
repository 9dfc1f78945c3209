"""Remembers the documents of tests that this process has just written, to save reading them.

Correctness does not depend on this. A refresh writes a test only over the version that it started
from, so a remembered document that another process has replaced causes a conflict. A result that
needs no write proves nothing, so then the document is read after all.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final, NamedTuple

import orjson

from indexing.lru import Lru
from indexing.store.elasticsearch.client.documents import Document, Version
from indexing.yielding import LoopYielder

# The memory for documents, of some kilobytes each.
_BYTES: Final = 16 * 1024 * 1024
# A test that runs in hundreds of jobs has a large document; it must not displace those of others.
_BYTES_OF_ONE: Final = _BYTES // 64
# How long documents are remembered; and how long those of a repository are not, once another
# process has written one of them. Otherwise processes that take turns would cause conflicts.
_SECONDS: Final = 600.0
# The most repositories that are known to be written by several processes.
_SHARED_REPOSITORIES: Final = 10_000


class _Written(NamedTuple):
    text: bytes
    version: Version


class WrittenTests:
    """The documents of tests that this process has written lately; the oldest are forgotten."""

    def __init__(self) -> None:
        self._tests: Lru[_Written] = Lru(_BYTES, overhead=0)
        # The repositories of which another process was seen to write tests.
        self._shared: Lru[bool] = Lru(_SHARED_REPOSITORIES, overhead=0)

    async def find(self, routing: str, tests: Collection[str]) -> dict[str, Document]:
        """Return the remembered documents of these tests of one repository."""
        found: dict[str, Document] = {}
        if self._is_shared(routing):
            return found
        yielder = LoopYielder()
        for test in tests:
            known = self._tests.find(test)
            if known is not None:
                found[test] = Document(test, orjson.loads(known.text), known.version)
                await yielder.yield_if_due()
        return found

    def keep(self, routing: str, test: str, text: bytes | None, version: Version | None) -> None:
        """Remember the document that this process has just written; forget it without a text."""
        self.forget(test)
        if text is None or version is None or self._is_shared(routing):
            return
        if len(text) <= _BYTES_OF_ONE:
            self._tests.keep(test, _Written(text, version), len(text), _deadline())

    def forget(self, test: str) -> None:
        """Read the document of this test the next time."""
        self._tests.drop(test)

    def note_other_writer(self, routing: str) -> None:
        """Remember no tests of this repository for a while, because others write them too."""
        self._shared.keep(routing, value=True, size=1, deadline=_deadline())

    def _is_shared(self, routing: str) -> bool:
        return self._shared.find(routing) is not None


def _deadline() -> float:
    return time.monotonic() + _SECONDS
