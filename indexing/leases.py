"""Leases in a store: only the owner of a lease does the work that it protects. Pure: no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from indexing.timestamps import from_microseconds, to_microseconds

# A lease that lasts longer from now comes from a machine with a wrong clock, and is ignored.
LONGEST_LEASE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease: its owner, and the time at which it ends."""

    owner: str
    until: datetime

    def allows(self, owner: str, now: datetime) -> bool:
        """Return whether that owner may take or extend the lease."""
        return self.owner == owner or not now < self.until <= now + LONGEST_LEASE

    def to_record(self) -> dict[str, Any]:
        """Return the lease as JSON values."""
        return {"owner": self.owner, "until": to_microseconds(self.until)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Lease:
        """Parse a record from `to_record`."""
        return cls(record["owner"], from_microseconds(record["until"]))
