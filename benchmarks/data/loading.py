"""Fills a store once with generated data; later runs reuse it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.data.generated import (
    MEASURED,
    OWNER,
    QUARANTINES,
    EventMaker,
    batches_of,
    quarantine_of,
    repositories_of,
)
from benchmarks.data.sizes import StoreSize
from indexing.clocks import utc_now
from indexing.models.keys import ApplicationKey, Scope
from indexing.store.interface import Store
from service.auth.api_keys import digest_key, make_key, make_key_id

# The folder for everything that a run keeps for the next one.
FOLDER: Final = Path(__file__).parents[2] / ".bench"

# Increase this when the generated data changes, so that no run measures older data.
DATA_VERSION: Final = 1

_EVENTS_A_CALL: Final = 2_000
_SECONDS_A_LINE: Final = 10.0

OpenStore = Callable[[], Coroutine[Any, Any, Store]]


def load(folder: Path, size: StoreSize, open_store: OpenStore) -> None:
    """Fill a store unless it is full already; `folder` keeps a note of that."""
    text = read_key()
    notes = {
        folder / f"loaded-{DATA_VERSION}": partial(_load, size, open_store),
        folder / f"key-{digest_key(text).hex()[:8]}": partial(_add_key, text, open_store),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for note, work in notes.items():
        if not note.exists():
            asyncio.run(work())
            note.touch()


def read_key() -> str:
    """Return the application key with scope `read` that every store knows; created once."""
    path = FOLDER / "key"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(make_owner_key()[0])
    return path.read_text()


def make_owner_key(scope: Scope = Scope.READ) -> tuple[str, ApplicationKey]:
    """Return a new key for all repositories of `OWNER`, and its record."""
    return make_key(
        key_id=make_key_id(),
        name="benchmark",
        scope=scope,
        owner=OWNER,
        repository=None,
        created_at=utc_now(),
    )


async def _add_key(text: str, open_store: OpenStore) -> None:
    _, record = make_owner_key()
    async with _opened(open_store) as store:
        await store.add_key(replace(record, digest=digest_key(text)))


async def _load(size: StoreSize, open_store: OpenStore) -> None:
    async with _opened(open_store) as store:
        for repository, _ in repositories_of(size):
            await store.ensure_repository(repository)
        await _load_events(store, size)
        await _load_executions(store, size)
        for number in range(QUARANTINES):
            await store.add_quarantine(MEASURED, quarantine_of(number), utc_now())


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
            await store.write_results(batch.repository, {batch.run: batch.executions})
        say(tests)
    refreshed = Progress(f"{size.name}: health", size.identities)
    await store.refresh_tests(utc_now(), refreshed.at)


@asynccontextmanager
async def _opened(open_store: OpenStore) -> AsyncIterator[Store]:
    store = await open_store()
    try:
        yield store
    finally:
        await store.close()


class Progress:
    """Reports the progress of a long load on stderr from time to time."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._said = time.monotonic()

    def __call__(self, more: int) -> None:
        self.at(self._done + more)

    def at(self, done: int) -> None:
        """Set the number done so far."""
        self._done = done
        if time.monotonic() - self._said > _SECONDS_A_LINE:
            self._said = time.monotonic()
            print(f"loading {self._what}: {done:,} of {self._total:,}", file=sys.stderr)
