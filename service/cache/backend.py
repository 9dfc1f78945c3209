"""The interface of the two cache backends, which decide whether a cached value is still valid.

Every value belongs to namespaces, each of which has a random version. A value is cached under the
versions that were read before the store was read; a writer replaces the version of the namespace
that it changed, after its commit. So a value under the current versions is no older than the last
write of any process that shares the versions, however slow the reader was.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from service.cache.confirmed import ConfirmedValues

VERSION_SIZE: Final = 16

Versions = tuple[bytes, ...]


def make_version() -> bytes:
    """Return a version that no namespace has had before."""
    return secrets.token_bytes(VERSION_SIZE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of the cache at one moment: versions by namespace, signed values by name."""

    versions: Mapping[str, bytes] = field(default_factory=dict)
    values: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharedStatus:
    """Whether the shared cache is usable now, and how often it has failed, by reason."""

    usable: bool
    failures: Mapping[str, int]


class CacheBackend(Protocol):
    """Holds the versions of namespaces, and values that processes share.

    Its methods never raise: after a failure, versions and values are missing.
    """

    # How many seconds a process may use its own copy of a value before it looks here again.
    copy_lifetime: float
    # Whether values and versions are on a server, which processes share.
    is_shared: bool

    @property
    def sees_all_writes(self) -> bool:
        """Whether the writes of all processes change the versions."""

    @property
    def status(self) -> SharedStatus | None:
        """The state of the shared server; `None` without one."""

    @property
    def confirmed_values(self) -> ConfirmedValues | None:
        """Values on the shared server that do not belong to the cache; `None` without a server."""

    def time_exchanges(self, observe: Callable[[float], None]) -> None:
        """Call `observe` with the seconds that each exchange with the shared server takes."""

    def find_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        """Return what `read_versions` does if that needs no server, else `None`.

        Call it while a request is received, not from a callback of the event loop.
        """

    def known_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        """Return what `ensure_versions` does if that needs no server, else `None`."""

    async def read_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        """Return the current version of each namespace; `None` if one is unknown."""

    async def snapshot(self, namespaces: Sequence[str], names: Sequence[str]) -> Snapshot:
        """Return the versions of these namespaces and the values of these names, at one moment."""

    async def ensure_versions(self, namespaces: Sequence[str]) -> Mapping[str, bytes]:
        """Make versions for namespaces that have none, and return the current versions."""

    def verify(self, name: str, versions: Versions, signed: bytes) -> bytes | None:
        """Return the payload of a value if it was signed for that name and these versions."""

    def put(self, name: str, versions: Versions, payload: bytes, seconds: float) -> None:
        """Share a value for that many seconds; it may be lost at any time."""

    async def count(self, name: str, seconds: float, more: int) -> tuple[int, float] | None:
        """Add `more` to a counter that expires `seconds` after its first use.

        Return the count and the seconds that are left; `None` if no counter is shared.
        """

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        """Make everything cached in these namespaces invalid."""

    async def close(self) -> None:
        """Release connections."""
