"""Events in the order of arrival in the store, which differs from the order of the log. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

# A read ends once it has this many bytes of events. An event may have a megabyte, and a thousand
# streams may read at the same time.
MOST_BYTES: Final = 256 * 1024


class ArrivalKey(NamedTuple):
    """A position in the order of arrival; later arrivals have greater keys.

    The meaning of `sequence` depends on the store. The other two fields distinguish events with the
    same sequence.
    """

    sequence: int
    received_microseconds: int = 0
    id: int = 0


class Arrival(NamedTuple):
    """One event that arrived.

    `repository_id` is from `indexing.identifiers.derive_repository_id`. `body` is the complete JSON
    text of the event.
    """

    key: ArrivalKey
    repository_id: bytes
    type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Some events in the order of arrival.

    To read the next events, continue from `until`: no earlier event is missing. `is_all` is true if
    these were all events so far. If it is false, there may still be none: those that were read are
    of other repositories. If a clock was put back, there are none either, and `until` is earlier
    than the position of the read.
    """

    rows: tuple[Arrival, ...]
    until: ArrivalKey
    is_all: bool
