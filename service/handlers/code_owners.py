"""Finds the owners of files, and the files of owners, by the CODEOWNERS file of a repository.

Reading a file of thousands of rules takes seconds, and matching one path against them up to some
milliseconds. So this is done in a thread, one at a time, because each busy thread makes the event
loop wait for the interpreter's lock. Tenants take turns. Only groups by owner match paths in the
threads of the store.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from aiohttp import web

from indexing.errors import InvalidValueError, StoreUnavailableError
from indexing.fairness import FairSemaphore, current_tenant
from indexing.groups import FindValues
from indexing.models.file_selections import FileSelection
from indexing.models.tests import TestQuery
from indexing.names import RepositoryName
from indexing.owners.finding import Owners, OwnersReader
from indexing.owners.selecting import FileSelector
from indexing.store.interface import Reader
from service.cache.reader import CachedReader
from service.context import CONTEXT, READER
from service.http import problems
from service.http.field_errors import FieldError
from service.middleware.timeout import READ_SECONDS

T = TypeVar("T")

# How many parsed files are cached: a large one takes a second to parse, and tens of megabytes.
_MAX_FILES: Final = 4
# How long a tenant may work before another one is next, in seconds.
_SLICE_SECONDS: Final = 0.1
# The most paths that are read from the store at once, and about how many characters they may have:
# parsing them blocks the event loop. Nobody knows how long the first paths are, so they are fewer.
_MOST_PATHS: Final = 10_000
_FIRST_PATHS: Final = 1_000
_CHARACTERS: Final = 1_000_000
# The most characters of all paths; they are kept in memory.
_MOST_CHARACTERS: Final = 20_000_000

_TOO_LONG: Final = "finding the owners takes too long"

OWNER_SLOTS: Final = web.AppKey("owner_slots", FairSemaphore)


class OpenFiles:
    """The files that were used last, partly read: a later request continues.

    The files of one owner take no place from those of another that has fewer. Otherwise a search
    that needs several requests could start again each time.
    """

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, str], OwnersReader] = OrderedDict()

    def open(self, repository: RepositoryName, text: str) -> OwnersReader:
        """Return the reader of a file."""
        key = (repository.owner.lower(), text)
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = OwnersReader(text)
            if len(self._files) > _MAX_FILES:
                self._drop_one()
        self._files.move_to_end(key)
        return file

    def _drop_one(self) -> None:
        counts = Counter(owner for owner, _ in self._files)
        most = max(counts.values())
        del self._files[next(key for key in self._files if counts[key[0]] == most)]


_open_files: Final = OpenFiles()
# Without a file, nothing has an owner.
_no_file: Final = OwnersReader("")


class OwnerSearch:
    """The owners of a repository's files, for one request, up to its timeout.

    What was read and found by then stays cached, so a later request continues from there. Owners
    of 100,000 paths are cached.
    """

    def __init__(self, request: web.Request, repository: RepositoryName) -> None:
        self._reader: Reader = request.app[CONTEXT].reader
        self._cached: CachedReader = request[READER]
        self._slots = request.app[OWNER_SLOTS]
        self._repository = repository
        self._deadline = time.monotonic() + READ_SECONDS
        self._ends = asyncio.get_running_loop().time() + READ_SECONDS

    def check(self) -> None:
        """Raise `StoreUnavailableError` after the timeout of the request."""
        if time.monotonic() > self._deadline:
            raise StoreUnavailableError(_TOO_LONG)

    async def _open(self) -> Owners:
        """Return the owners by the stored file; without a file, nothing has an owner."""
        text = await self._reader.get_code_owners(self._repository)
        file = _open_files.open(self._repository, text) if text else _no_file
        owners = None
        while owners is None:
            owners = await self._run_queued(partial(file.read, _SLICE_SECONDS))
        return owners

    async def find_owners(self, filepath: str) -> tuple[str, ...]:
        """Return the owners of one file; empty if nobody owns it.

        Raises:
            StoreUnavailableError: finding them takes too long.
        """
        async with self._limit_time():
            owners = await self._open()
            found = await self._run_queued(partial(owners.find, filepath, self.check))
        return tuple(owner for owner in found if owner is not None)

    async def open_groups(self) -> FindValues:
        """Return a function that finds the owners of a file; it raises as `check` does."""
        async with self._limit_time():
            owners = await self._open()
        return lambda filepath, _: owners.find(filepath, self.check)

    async def select_files(self, names: tuple[str, ...]) -> FileSelection:
        """Return the files of tests that belong to any of these owners.

        Raises:
            Problem: 422 if they are too many.
            StoreUnavailableError: finding them takes too long.
        """
        try:
            async with self._limit_time():
                return await self._select_files(names)
        except InvalidValueError as error:
            raise problems.invalid([FieldError("query", "owner", str(error))]) from error

    async def _select_files(self, names: tuple[str, ...]) -> FileSelection:
        selector = FileSelector(await self._open(), names, self.check)
        if selector.is_decided:
            return selector.select()
        paths = await self._cached.find_filepaths(self._repository, self._list_filepaths)
        at = 0
        while at < len(paths):
            at = await self._run_queued(partial(selector.take, paths, at, _SLICE_SECONDS))
        return selector.select()

    async def _list_filepaths(self) -> list[str]:
        paths: list[str] = []
        characters, limit = 0, _FIRST_PATHS
        while True:
            after = paths[-1] if paths else None
            found = await self._reader.list_filepaths(self._repository, after, limit)
            paths += found
            characters += sum(map(len, found))
            if characters > _MOST_CHARACTERS:
                raise InvalidValueError("cannot be used: the repository has too many files")
            if len(found) < limit:
                return paths
            limit = max(1, min(_MOST_PATHS, _CHARACTERS * len(paths) // max(1, characters)))

    @asynccontextmanager
    async def _limit_time(self) -> AsyncIterator[None]:
        """Limit the time of all that is done inside: `check` cannot interrupt every step."""
        try:
            async with asyncio.timeout_at(self._ends):
                yield
        except TimeoutError as error:
            raise StoreUnavailableError(_TOO_LONG) from error

    async def _run_queued(self, work: Callable[[], T]) -> T:
        """Run the work in a thread; it keeps its turn even if the request is cancelled."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._slots.slot(current_tenant.get()))
            self.check()
            turn = stack.pop_all()

        async def run() -> T:
            async with turn:
                return await asyncio.to_thread(work)

        running = asyncio.create_task(run())
        running.add_done_callback(_ignore_result)
        return await asyncio.shield(running)


def _ignore_result(task: asyncio.Task[T]) -> None:
    """Mark the error of a task as seen: nobody waits for it if the request was cancelled."""
    if not task.cancelled():
        task.exception()


async def with_files(request: web.Request, query: TestQuery) -> TestQuery:
    """Return the query with the files of its owners, if it has any.

    Raises:
        Problem: 422 if they are too many.
        StoreUnavailableError: finding them takes too long.
    """
    if not query.owners:
        return query
    search = OwnerSearch(request, query.repository)
    read = partial(search.select_files, query.owners)
    found = await request[READER].find_files(query.repository, query.owners, read)
    return replace(query, files=None if found.everything else found)
