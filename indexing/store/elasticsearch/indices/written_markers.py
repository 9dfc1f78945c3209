"""Which dirty markers this process has just written, so that its next refresh need not search them.

It saves requests and protects nothing: a refresh reads each of them again by its id, and finds by a
search what is not in here.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE

# A write that no refresh follows stays here; the oldest are forgotten.
_REPOSITORIES: Final = 1_000


@dataclass(frozen=True, slots=True)
class WrittenMarker:
    """A marker, and which documents its refresh reads: tests, runs and arrivals, by their ids."""

    id: str
    tests: frozenset[str]
    runs: frozenset[str]
    arrivals: frozenset[tuple[str, int]]


class WrittenMarkers:
    """The markers of small writes of one process, by repository."""

    def __init__(self) -> None:
        self._markers: OrderedDict[str, list[WrittenMarker]] = OrderedDict()

    def add(self, routing: str, marker: WrittenMarker) -> None:
        """Remember a marker whose executions are stored; forget them all if they are many."""
        markers = self._markers.pop(routing, [])
        if sum(len(each.tests) + len(each.arrivals) for each in (*markers, marker)) <= SMALL_WRITE:
            self._markers[routing] = [*markers, marker]
        if len(self._markers) > _REPOSITORIES:
            self._markers.popitem(last=False)

    def take(self, routing: str) -> list[WrittenMarker]:
        """Return the markers of a repository, and forget them."""
        return self._markers.pop(routing, [])
