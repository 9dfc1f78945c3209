"""What every handler finds in the application. Wired in `service.app`, nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.auth import Operation, authenticate, find_visible, require_scope
from service.cursor import Seal
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
    context = request.app[CONTEXT]
    key = await authenticate(request.headers, context.reader, context.clock())
    values = request.match_info
    check_path(path, values)
    owner, repository = path[0].name, path[1].name
    name = RepositoryName(values[owner], values[repository])
    found = await find_visible(key, name, context.reader)
    require_scope(key, operation)
    return found
