"""The interfaces of the peer's store and cache."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from benchmarks.peers.models import Quarantine, TestDetail, TestIdentity


@dataclass(frozen=True, slots=True)
class EventPlace:
    """The event that a page continues after."""

    received_at: int
    id: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """Decoded events, newest first, and the start of the next page, if there is one."""

    events: list[Any]
    next: EventPlace | None


@dataclass(frozen=True, slots=True)
class Search:
    """The filters of a test search; patterns are globs."""

    repository: str
    patterns: list[str]
    jobs_excluded: list[str]
    limit: int


class PeerStore(Protocol):
    """The reads of the peer; repositories are named by their lower-cased `owner/name`."""

    async def is_allowed(self, digest: bytes, repository: str) -> bool:
        """Return whether the repository is known and the key with that SHA-256 may read it."""

    async def find_test(self, repository: str, test_id: UUID) -> TestDetail | None:
        """Return one test."""

    async def list_quarantines(self, repository: str, branch: str | None) -> list[Quarantine]:
        """Return the active quarantines."""

    async def list_events(
        self,
        repository: str,
        received_from: datetime,
        received_to: datetime,
        after: EventPlace | None,
        limit: int,
    ) -> EventPage:
        """Return one page of the log."""

    async def search_tests(self, search: Search) -> list[TestIdentity]:
        """Return the first page of the matches, sorted by number of executions."""


class PeerCache(Protocol):
    """Complete responses by key."""

    async def get(self, key: str) -> bytes | None:
        """Return the cached response, if there is one."""

    async def set(self, key: str, value: bytes) -> None:
        """Cache a response for a minute."""
