"""What the peer's application asks of its store and of its cache, whichever those are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from benchmarks.peers.models import Quarantine, TestDetail, TestIdentity


@dataclass(frozen=True, slots=True)
class EventPlace:
    """The event that a page goes on after."""

    received_at: int
    id: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """Decoded events, newest first, and where the next page goes on, if there is one."""

    events: list[Any]
    next: EventPlace | None


@dataclass(frozen=True, slots=True)
class Search:
    """What a test search asks for; patterns are globs."""

    repository: str
    patterns: list[str]
    jobs_excluded: list[str]
    limit: int


class PeerStore(Protocol):
    """The reads of the peer; repositories go by their lower-cased `owner/name`."""

    async def is_allowed(self, digest: bytes, repository: str) -> bool:
        """Whether the key with that SHA-256 reads the repository, and the repository is known."""

    async def find_test(self, repository: str, test_id: UUID) -> TestDetail | None:
        """One test."""

    async def list_quarantines(self, repository: str, branch: str | None) -> list[Quarantine]:
        """The quarantines in force."""

    async def list_events(
        self,
        repository: str,
        received_from: datetime,
        received_to: datetime,
        after: EventPlace | None,
        limit: int,
    ) -> EventPage:
        """One page of the log."""

    async def search_tests(self, search: Search) -> list[TestIdentity]:
        """The first page of what matches, by how often it ran."""


class PeerCache(Protocol):
    """Finished answers by a key."""

    async def get(self, key: str) -> bytes | None:
        """The answer that was kept, if one was."""

    async def set(self, key: str, value: bytes) -> None:
        """Keep an answer for a minute."""
