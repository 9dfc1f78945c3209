"""What handlers read from the application (see `service.app`) and from a request (see layers)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from indexing.clocks import Clock
from indexing.names import RepositoryName
from indexing.store.interface import Reader, Writer
from service.auth.principal import Principal
from service.cache.reader import CachedReader, CachedReaders
from service.http.field_errors import FieldError
from service.http.operations import Operation
from service.pagination.cursor import CursorSigner

if TYPE_CHECKING:
    from service.auth.code_host.access import CodeHost


@dataclass(slots=True)
class Lifecycle:
    """Whether the process is about to stop: the one thing here that changes."""

    stopping: bool = False


class OpenApiDocument:
    """The OpenAPI document: built in a thread at the first request for it, and kept."""

    def __init__(self, build: Callable[[], bytes]) -> None:
        self._build = build
        self._lock = asyncio.Lock()
        self._text: bytes | None = None

    async def get(self) -> bytes:
        """Return the document as JSON text."""
        async with self._lock:
            if self._text is None:
                self._text = await asyncio.to_thread(self._build)
        return self._text


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of the application that handlers use. Layers have application keys of their own.

    `reader` reads what is not cached. For all else, the authentication layer opens a cached reader
    for each request, by `readers`.
    """

    reader: Reader
    writer: Writer
    readers: CachedReaders
    code_host: CodeHost | None
    clock: Clock
    cursor_signer: CursorSigner
    public_url: str | None
    openapi: OpenApiDocument


@dataclass(frozen=True, slots=True)
class Requested:
    """The parameters of the path, and their errors; `repository` is `None` if the path has none."""

    owner: str
    repository: RepositoryName | None
    errors: tuple[FieldError, ...]


@dataclass(frozen=True, slots=True)
class AccessCheck:
    """Checks the access of a request again while its response is being sent.

    `run` raises a `Problem` if the request would be refused now.
    """

    run: Callable[[web.Request], Awaitable[object]]


CONTEXT: Final = web.AppKey("context", Context)
LIFECYCLE: Final = web.AppKey("lifecycle", Lifecycle)
# The checks of the credential in the header, for each operation that reads.
CREDENTIAL_CHECKS: Final = web.AppKey("credential_checks", dict[Operation, AccessCheck])

# Set on a request by layers. A token is verified for one repository, so a path with errors leaves
# it without a principal. The repository is in its stored spelling.
REQUESTED: Final = web.RequestKey("requested", Requested)
PRINCIPAL: Final = web.RequestKey("principal", Principal)
READER: Final = web.RequestKey("reader", CachedReader)
REPOSITORY: Final = web.RequestKey("repository", RepositoryName)
# Set if access does not depend on the credential in the header.
ACCESS_CHECK: Final = web.RequestKey("access_check", AccessCheck)


def find_access_check(request: web.Request, operation: Operation) -> AccessCheck:
    """Return what checks the access of this request again."""
    return request.get(ACCESS_CHECK) or request.app[CREDENTIAL_CHECKS][operation]
