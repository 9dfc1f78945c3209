"""Remembers the documents of tests that this process has just written, to save reading them.

Correctness does not depend on this. A refresh writes a test only over the version that it started
from, so a remembered document that another process has replaced causes a conflict. A result that
needs no write proves nothing, so then the document is read after all.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import orjson

from indexing.store.elasticsearch.client.connection import Document, Version

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
    source: bytes
    version: Version
    at: float


class WrittenTests:
    """The documents of tests that this process has written lately; the oldest are forgotten."""

    def __init__(self) -> None:
        self._tests: OrderedDict[str, _Written] = OrderedDict()
        self._bytes = 0
        # When another process was seen to write tests of a repository.
        self._shared: OrderedDict[str, float] = OrderedDict()

    def find(self, routing: str, tests: Collection[str]) -> dict[str, Document]:
        """Return the remembered documents of these tests of one repository."""
        if self._is_shared(routing):
            return {}
        oldest = time.monotonic() - _SECONDS
        return {
            test: Document(test, orjson.loads(known.source), known.version)
            for test in tests
            if (known := self._tests.get(test)) is not None and known.at > oldest
        }

    def keep(
        self, routing: str, test: str, source: Mapping[str, Any] | None, version: Version | None
    ) -> None:
        """Remember the document that this process has just written."""
        self.forget(test)
        if version is None or self._is_shared(routing):
            return
        text = orjson.dumps(source)
        if len(text) > _BYTES_OF_ONE:
            return
        self._tests[test] = _Written(text, version, time.monotonic())
        self._bytes += len(text)
        while self._bytes > _BYTES:
            _, oldest = self._tests.popitem(last=False)
            self._bytes -= len(oldest.source)

    def forget(self, test: str) -> None:
        """Read the document of this test the next time."""
        known = self._tests.pop(test, None)
        if known is not None:
            self._bytes -= len(known.source)

    def note_other_writer(self, routing: str) -> None:
        """Remember no tests of this repository for a while, because others write them too."""
        self._shared.pop(routing, None)
        self._shared[routing] = time.monotonic()
        if len(self._shared) > _SHARED_REPOSITORIES:
            self._shared.popitem(last=False)

    def _is_shared(self, routing: str) -> bool:
        since = self._shared.get(routing)
        return since is not None and time.monotonic() - since < _SECONDS
