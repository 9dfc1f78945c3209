"""A lease of a store: one process at a time does what it is for. Pure: no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from indexing.timestamps import from_microseconds, to_microseconds

# One that lasts longer comes from a machine with a wrong clock.
MAX_AHEAD: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a lease, and until when."""

    owner: str
    until: datetime

    def allows(self, owner: str, now: datetime) -> bool:
        """Whether that owner may take it or extend it."""
        return self.owner == owner or not now < self.until <= now + MAX_AHEAD

    def to_record(self) -> dict[str, Any]:
        """The lease as JSON values."""
        return {"owner": self.owner, "until": to_microseconds(self.until)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Lease:
        """The lease of a record from `to_record`."""
        return cls(record["owner"], from_microseconds(record["until"]))
