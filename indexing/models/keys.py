"""Application keys as they are stored: never the key itself, only its digest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """What the holder of a key may do."""

    READ = "read"
    INGEST = "ingest"
    QUARANTINE = "quarantine"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ApplicationKey:
    """A key for all repositories of `owner`, or for the one named `repository` there.

    `digest` is the SHA-256 of the key's text. `id` names the key in commands.
    """

    id: str
    name: str
    scope: Scope
    owner: str
    repository: str | None
    digest: bytes
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
