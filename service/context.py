"""What every handler finds in the application. Wired in `service.app`, nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from indexing.models.keys import ApplicationKey
from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store.interface import Reader, Writer
from service.auth import Operation, authenticate, find_visible, find_writable, require_scope
from service.cursor import Seal
from service.intake import Intake
from service.paths import PathParameter, check_path

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock on the wall."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Lifecycle:
    """Whether the process is on its way out: the one thing here that changes."""

    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """What answers are made with."""

    reader: Reader
    writer: Writer
    intake: Intake
    clock: Clock
    seal: Seal
    public_url: str | None
    openapi: bytes


CONTEXT: Final = web.AppKey("context", Context)
LIFECYCLE: Final = web.AppKey("lifecycle", Lifecycle)


async def admit(
    request: web.Request, operation: Operation, path: tuple[PathParameter, ...]
) -> Repository:
    """Let a request in to the repository that its path names: its first two parameters.

    Raises:
        Problem: 403 for the credential, then 422 for the path's form, then 404 for the
            repository, then 403 for the scope.
    """
    key, name = await _identify(request, path)
    found = await find_visible(key, name, request.app[CONTEXT].reader)
    require_scope(key, operation)
    return found


async def admit_to_write(
    request: web.Request, operation: Operation, path: tuple[PathParameter, ...]
) -> RepositoryName:
    """Let a request in to write to the repository that its path names, which may be a new one.

    Raises:
        Problem: in the order of `admit`.
    """
    key, name = await _identify(request, path)
    return await find_writable(key, name, operation, request.app[CONTEXT].reader)


async def _identify(
    request: web.Request, path: tuple[PathParameter, ...]
) -> tuple[ApplicationKey, RepositoryName]:
    """Who asks, and for which repository."""
    context = request.app[CONTEXT]
    key = await authenticate(request.headers, context.reader, context.clock())
    values = request.match_info
    check_path(path, values)
    return key, RepositoryName(values[path[0].name], values[path[1].name])
