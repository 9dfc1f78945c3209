"""What every handler finds in the application. Wired in `service.app`, nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from indexing.store.interface import Reader, Writer
from service.cache.session import Cache
from service.pagination.cursor import CursorSigner

if TYPE_CHECKING:
    from service.auth.code_host.access import CodeHost

Clock = Callable[[], datetime]


# The present time.
utc_now: Final[Clock] = partial(datetime.now, UTC)


@dataclass(slots=True)
class Lifecycle:
    """Whether the process is about to stop: the one thing here that changes."""

    stopping: bool = False


class OpenApiDocument:
    """The OpenAPI document: built in a thread when it is first asked for, and kept then."""

    def __init__(self, build: Callable[[], bytes]) -> None:
        self._build = build
        self._lock = asyncio.Lock()
        self._text: bytes | None = None

    async def get(self) -> bytes:
        """The document as JSON text."""
        async with self._lock:
            if self._text is None:
                self._text = await asyncio.to_thread(self._build)
        return self._text


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
    openapi: OpenApiDocument


CONTEXT: Final = web.AppKey("context", Context)
LIFECYCLE: Final = web.AppKey("lifecycle", Lifecycle)
