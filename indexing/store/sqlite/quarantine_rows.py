"""The rows of `quarantines`: which are in force, and how they convert to a `Quarantine`."""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import Any, Final

from indexing.models.quarantines import Quarantine, QuarantineKey, QuarantineSource
from indexing.timestamps import from_microseconds, moment_or_none

# The condition for quarantines in force; the parameter is the current time. `q` is the table.
IN_FORCE: Final = "q.removed_at IS NULL AND (q.expires_at IS NULL OR q.expires_at > ?)"

# The columns in the order that `quarantine_of` expects.
QUARANTINE_COLUMNS: Final = (
    "q.id, q.test_name, q.reason, q.branch, q.source, q.owner, q.created_at, q.expires_at,"
    " q.is_recovered"
)

# More rows than nearly all repositories have; each takes about a kilobyte.
_KEPT: Final = 4_096


# A build asks for the list of its own branch, which mostly has the same rows as that of another.
@lru_cache(_KEPT)
def quarantine_of(row: tuple[Any, ...]) -> Quarantine:
    """Return the quarantine in a row with the values of `QUARANTINE_COLUMNS`."""
    quarantine_id, test_name, reason, branch, source, owner, created_at, expires_at, recovered = row
    return Quarantine(
        key=QuarantineKey(from_microseconds(created_at), uuid.UUID(bytes=quarantine_id)),
        test_name=test_name,
        reason=reason,
        branch=branch,
        source=QuarantineSource(source),
        is_recovered=bool(recovered),
        owner=owner,
        expires_at=moment_or_none(expires_at),
    )
