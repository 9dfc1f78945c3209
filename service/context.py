"""What every handler finds in the application. Wired in `service.app`, nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from indexing.store.interface import Reader, Writer
from service.auth.code_host.access import CodeHost
from service.cache.session import Cache
from service.pagination.cursor import CursorSigner

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The present time."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Lifecycle:
    """Whether the process is about to stop: the one thing here that changes."""

    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """What handlers answer with. The layers around them have keys of their own."""

    reader: Reader
    writer: Writer
    cache: Cache
    code_host: CodeHost | None
    clock: Clock
    cursor_signer: CursorSigner
    public_url: str | None
    openapi: bytes


CONTEXT: Final = web.AppKey("context", Context)
LIFECYCLE: Final = web.AppKey("lifecycle", Lifecycle)
