"""Remembers the dirty markers that this process has just written, to save its refresh a search.

Correctness does not depend on this: a refresh reads each of these markers again by its id, and
searches for all others.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE

# The most repositories with remembered markers. Without a refresh, markers would stay here forever,
# so the oldest are forgotten.
_REPOSITORIES: Final = 1_000


@dataclass(frozen=True, slots=True)
class WrittenMarker:
    """A marker, and the ids of the tests, runs and arrivals that its refresh has to read."""

    id: str
    tests: frozenset[str]
    runs: frozenset[str]
    arrivals: frozenset[tuple[str, int]]


class WrittenMarkers:
    """The markers of this process's small writes, by repository."""

    def __init__(self) -> None:
        self._markers: OrderedDict[str, list[WrittenMarker]] = OrderedDict()

    def add(self, routing: str, marker: WrittenMarker) -> None:
        """Remember a marker whose change is done.

        If the markers of the repository name too many documents, all of them are forgotten.
        """
        markers = self._markers.pop(routing, [])
        if sum(len(each.tests) + len(each.arrivals) for each in (*markers, marker)) <= SMALL_WRITE:
            self._markers[routing] = [*markers, marker]
        if len(self._markers) > _REPOSITORIES:
            self._markers.popitem(last=False)

    def pop(self, routing: str) -> list[WrittenMarker]:
        """Return the markers of a repository, and forget them."""
        return self._markers.pop(routing, [])
