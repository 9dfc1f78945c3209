"""What the two kinds of cache have in common: who tells whether a value still holds.

Everything kept belongs to generations, each of which has a random token. A value is kept with the
tokens that were read before the store was asked for it; a writer replaces the token of what it
changed after its commit. So a value whose tokens are the present ones is no older than the last
write, whoever made it and however slow it was.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

VERSION_SIZE: Final = 16

Versions = tuple[bytes, ...]


def make_version() -> bytes:
    """A token that no generation had before."""
    return secrets.token_bytes(VERSION_SIZE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was there at one moment: tokens by generation, sealed values by name."""

    versions: Mapping[str, bytes] = field(default_factory=dict)
    values: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharedStatus:
    """Whether values are shared just now, and how often that failed, by reason."""

    usable: bool
    failures: Mapping[str, int]


class CacheBackend(Protocol):
    """Where generations live, and values that processes share. Nothing here ever raises.

    Whatever goes wrong is a token or a value that is not there.
    """

    # For how long a process may hold a value of its own before it looks for it here again.
    copy_lifetime: float

    @property
    def status(self) -> SharedStatus | None:
        """How the server does that processes share; nothing where they share none."""

    async def read_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        """The present token of each generation, or nothing where one is not known."""

    async def snapshot(self, namespaces: Sequence[str], names: Sequence[str]) -> Snapshot:
        """What is there of these generations and values, as of one moment."""

    async def ensure_versions(self, namespaces: Sequence[str]) -> Mapping[str, bytes]:
        """Make tokens for generations that have none; gives those that hold then."""

    def open(self, name: str, versions: Versions, signed: bytes) -> bytes | None:
        """The payload of a sealed value, if it is one of that name and these tokens."""

    def put(self, name: str, versions: Versions, payload: bytes, seconds: float) -> None:
        """Share a value; it may be lost at any time."""

    async def count(self, name: str, seconds: float, more: int) -> tuple[int, float] | None:
        """Count so many more under a name whose count ends so long after its first.

        Gives the count and how many seconds are left of it; nothing where no process shares one.
        """

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        """Make void what was kept of these generations."""

    async def close(self) -> None:
        """Let go of what is held."""
