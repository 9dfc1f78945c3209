"""The objects that all modules of this backend share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from indexing.identifiers import derive_repository_id
from indexing.lru import Lru
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.combined_reads import CombinedReads
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.search_queue import SearchQueue
from indexing.store.elasticsearch.indices.control import Control
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.refresh_lease import RefreshLeases
from indexing.store.elasticsearch.indices.time_slices import TimeSlices
from indexing.store.elasticsearch.indices.written_markers import WrittenMarkers
from indexing.store.elasticsearch.indices.written_tests import WrittenTests

_LARGE_EVENTS_BYTES: Final = 4 * 1024 * 1024
_SHORT_NAMES_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cluster:
    """One installation in one cluster: its connection, layout and shared state.

    `large_events` has the routings of repositories with events that are too large to read many at
    once, and `short_names` says of some whether their names are short enough to read many at once.
    `unread` are indices that nobody reads yet, such as the one that a rebuild is filling; writes to
    them need no refresh.
    """

    connection: Connection
    combined_reads: CombinedReads
    layout: Layout
    control: Control
    slices: TimeSlices
    refresh_leases: RefreshLeases
    searches: SearchQueue = field(default_factory=SearchQueue)
    written_markers: WrittenMarkers = field(default_factory=WrittenMarkers)
    written_tests: WrittenTests = field(default_factory=WrittenTests)
    large_events: Lru[bool] = field(default_factory=lambda: Lru(_LARGE_EVENTS_BYTES))
    short_names: Lru[bool] = field(default_factory=lambda: Lru(_SHORT_NAMES_BYTES))
    unread: frozenset[str] = frozenset()


# A page of a list uses it several times.
@lru_cache(maxsize=1_024)
def routing_of(repository: RepositoryName) -> str:
    """Return the `repository_id` of a repository's documents, which is also their routing."""
    return derive_repository_id(repository).hex()
