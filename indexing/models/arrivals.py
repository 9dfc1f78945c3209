"""Events in the order in which they arrived in the store, which is not that of the log. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class ArrivalKey(NamedTuple):
    """A place in the order of arrival; later arrivals have greater keys.

    The store gives the sequence its meaning. The other two tell events of one sequence apart.
    """

    sequence: int
    received_microseconds: int = 0
    id: int = 0


class Arrival(NamedTuple):
    """One event that arrived.

    `repository_id` is that of `indexing.identifiers.derive_repository_id`, `body` the complete JSON
    text of the event.
    """

    key: ArrivalKey
    repository_id: bytes
    type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Some events in the order of arrival.

    Everything that arrived up to `until` is in here or came before; the next events follow it.
    `is_all` tells whether these were all events up to now.
    """

    rows: tuple[Arrival, ...]
    until: ArrivalKey
    is_all: bool
