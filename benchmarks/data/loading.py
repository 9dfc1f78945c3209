"""Fills a store with what `made_up` makes, once; what was loaded is found again by the next run."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.data.made_up import (
    MEASURED,
    OWNER,
    QUARANTINES,
    EventMaker,
    batches_of,
    quarantine_of,
    repositories_of,
)
from benchmarks.data.sizes import StoreSize
from indexing.models.keys import Scope
from indexing.store.interface import Store
from service.auth import make_key, make_key_id

# Where everything lies that a run leaves behind for the next one.
FOLDER: Final = Path(__file__).parents[2] / ".bench"

# Raised when what is made up changes, so that no run measures over older data.
DATA_VERSION: Final = 1

_EVENTS_A_CALL: Final = 2_000
_SECONDS_A_LINE: Final = 10.0

OpenStore = Callable[[], Coroutine[Any, Any, Store]]


class Loaded:
    """A store that is filled, and the key that reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def key(self) -> str:
        """The text of an application key of scope `read` for all repositories."""
        return (self.folder / "key").read_text()


def load(folder: Path, size: StoreSize, open_store: OpenStore) -> Loaded:
    """Fill a store, unless that is done; `folder` keeps the key and the note that it is."""
    done = folder / f"loaded-{DATA_VERSION}"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(_load(folder, size, open_store))
        done.touch()
    return Loaded(folder)


async def _load(folder: Path, size: StoreSize, open_store: OpenStore) -> None:
    async with _opened(open_store) as store:
        for repository, tests in repositories_of(size):
            await store.ensure_repository(repository)
        await _load_events(store, size)
        await _load_executions(store, size)
        for number in range(min(QUARANTINES, size.tests)):
            await store.add_quarantine(MEASURED, quarantine_of(number), _now())
        text, record = make_key(
            key_id=make_key_id(),
            name="benchmark",
            scope=Scope.READ,
            owner=OWNER,
            repository=None,
            created_at=_now(),
        )
        await store.add_key(record)
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(text)


async def _load_events(store: Store, size: StoreSize) -> None:
    maker = EventMaker()
    say = Progress(f"{size.name}: events", size.events)
    numbers = iter(range(size.events))
    while call := [maker.make(n, size.events) for n in islice(numbers, _EVENTS_A_CALL)]:
        await store.write_events(call)
        say(len(call))


async def _load_executions(store: Store, size: StoreSize) -> None:
    say = Progress(f"{size.name}: tests", size.identities)
    for repository, tests in repositories_of(size):
        for batch in batches_of(repository, tests):
            await store.write_executions(batch.repository, batch.run, batch.executions)
        say(tests)
    refreshed = Progress(f"{size.name}: health", size.identities)
    await store.refresh_tests(_now(), refreshed.at)


@asynccontextmanager
async def _opened(open_store: OpenStore) -> AsyncIterator[Store]:
    store = await open_store()
    try:
        yield store
    finally:
        await store.close()


def _now() -> datetime:
    return datetime.now(UTC)


class Progress:
    """Says on stderr, now and then, how far a long load is."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._said = time.monotonic()

    def __call__(self, more: int) -> None:
        self.at(self._done + more)

    def at(self, done: int) -> None:
        """So many are done by now."""
        self._done = done
        if time.monotonic() - self._said > _SECONDS_A_LINE:
            self._said = time.monotonic()
            print(f"loading {self._what}: {done:,} of {self._total:,}", file=sys.stderr)
