"""Times the pages of the dashboard over a large repository: `python -m benchmarks.dashboard`.

Each page is requested as a browser does after signing in, several times, each time from a service
with nothing cached. `--elasticsearch` starts a node of its own, and clears its caches before each
request. The store stays in `.bench/` for the next run, which sees it at the time of its load.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.dashboard.data import load
from benchmarks.dashboard.pages import HOME, Fetched, Page, fetch, list_pages, weigh_assets
from benchmarks.data.loading import FOLDER
from indexing.clocks import utc_now
from indexing.models.keys import Scope
from indexing.store import open_store
from indexing.timestamps import format_timestamp, parse_timestamp
from service.app import create_app
from service.auth.api_keys import make_key, make_key_id
from service.config.settings import Settings
from service.server.listener import http_url
from service.server.process import bind, start
from tests.builders import WIDGETS
from tests.servers.elasticsearch import Node
from tests.signing_in import sign_in

TESTS: Final = 100_000
EVENTS: Final = 1_000_000
ROUNDS: Final = 5
# The milliseconds in which the first content of a page has to come, and its compressed bytes.
SQLITE_LIMIT, ELASTICSEARCH_LIMIT = 300, 500
MAX_BYTES: Final = 250_000
_PREFIX: Final = "dashboard"
_STEPS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """The store, a key for it, and the time of its load, the present of the service."""

    settings: Settings
    node: str | None
    key: str
    loaded_at: datetime

    @property
    def limit(self) -> int:
        return SQLITE_LIMIT if self.node is None else ELASTICSEARCH_LIMIT


@dataclass(slots=True)
class Figures:
    """What was measured of one page, and the times of a loop right before each request."""

    fetched: list[Fetched] = field(default_factory=list)
    loops: list[float] = field(default_factory=list)
    asset_bytes: int = 0

    def show(self, page: Page, limit: int) -> bool:
        """Print a row; return whether the page keeps its limits."""
        times = [1_000 * each.seconds for each in self.fetched]
        worked = statistics.median(1_000 * each.cpu_seconds for each in self.fetched)
        median, loop = statistics.median(times), 1_000 * statistics.median(self.loops)
        packed = self.fetched[-1].packed_bytes
        holds = page.is_part or (median <= limit and packed + self.asset_bytes <= MAX_BYTES)
        print(
            f"{page.name:<52} {median:6.0f} {max(times):8.0f} {worked:8.0f} {median / loop:9.1f}"
            f" {packed / 1_000:7.1f} {(packed + self.asset_bytes) / 1_000:7.1f}"
            f"  {'' if holds else 'DOES NOT HOLD'}",
            flush=True,
        )
        return holds


@contextmanager
def node_at(url: str | None, folder: Path) -> Iterator[str]:
    """Yield the URL of a node: the given one, or one that runs until the context exits."""
    if url:
        yield url
        return
    with Node(folder, heap="1g", quick_start=False) as node:
        yield node.url


async def fill(settings: Settings, tests: int, events: int, now: datetime) -> None:
    """Load everything into an empty store."""
    began = time.perf_counter()
    store = await open_store(settings.store)
    try:
        await load(store, tests, events, now)
    finally:
        await store.close()
    print(f"loaded {tests:,} tests, {events:,} events in {time.perf_counter() - began:.0f} s")


async def add_key(settings: Settings, now: datetime) -> str:
    """Return a new key for the store."""
    key, record = make_key(
        key_id=make_key_id(),
        name="benchmark",
        scope=Scope.QUARANTINE,
        owner=WIDGETS.owner,
        repository=None,
        created_at=now,
    )
    store = await open_store(settings.store)
    try:
        await store.add_key(record)
    finally:
        await store.close()
    return key


@asynccontextmanager
async def signed_in(place: Place) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Yield a client of a new service, which has answered only for an empty repository."""
    store = await open_store(place.settings.store)
    app = create_app(place.settings, store, clock=lambda: place.loaded_at)
    with bind("127.0.0.1", 0) as sock:
        runner = await start(app, sock)
        # Cookies of an address without a name are kept too.
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar, auto_decompress=False) as client:
            url = http_url(sock)
            await sign_in(client, url, place.key)
            yield client, url
        await runner.cleanup()


async def _warm_up(client: aiohttp.ClientSession, url: str, page: Page) -> None:
    """Open connections and compile templates, by the same page of a repository without data."""
    if page.path.startswith(HOME):
        async with client.get(url + page.path.replace(HOME, "/ui/acme/service-000", 1)) as response:
            await response.read()


def run_loop() -> float:
    """Return the seconds of a loop, to which the times of pages are compared."""
    began = time.perf_counter()
    sum(number & 7 for number in range(_STEPS))
    return time.perf_counter() - began


async def measure(place: Place, pages: list[Page], rounds: int) -> bool:
    """Print the figures of all pages; return whether they keep their limits."""
    print(f"{'milliseconds, kB compressed':<52} median  slowest      CPU  of loops    page     all")
    holds = [await _measure_page(place, page, rounds) for page in pages]
    return all(holds)


async def _measure_page(place: Place, page: Page, rounds: int) -> bool:
    figures = Figures()
    for _ in range(rounds):
        async with signed_in(place) as (client, url):
            await _warm_up(client, url, page)
            if place.node:
                clear = f"{place.node}/{_PREFIX}-*/_cache/clear?query=true&request=true"
                async with client.post(clear) as response:
                    response.raise_for_status()
            figures.loops.append(run_loop())
            try:
                figures.fetched.append(await fetch(client, url, page))
            except aiohttp.ClientResponseError as error:
                print(f"{page.name:<52} DOES NOT HOLD: {error.status}", flush=True)
                return False
            if not page.is_part:
                figures.asset_bytes = await weigh_assets(client, url, figures.fetched[-1].body)
    return figures.show(page, place.limit)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--elasticsearch", action="store_true", help="instead of SQLite")
    arguments.add_argument("--url", help="a node that runs already, with its data in .bench/")
    arguments.add_argument("--only", default="", help="measure pages with this text in their names")
    arguments.add_argument("--tests", type=int, default=TESTS)
    arguments.add_argument("--events", type=int, default=EVENTS)
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    given = arguments.parse_args()
    kind = "elasticsearch" if given.elasticsearch else "sqlite"
    folder = FOLDER / f"dashboard-{kind}-{given.tests}-{given.events}"
    note = folder / "loaded"
    if not note.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    pages = [page for page in list_pages() if given.only in page.name]
    settings = Settings(data_dir=folder)
    if not given.elasticsearch:
        return _run(settings, None, note, pages, given)
    with node_at(given.url, folder) as url:
        over_node = replace(settings, elasticsearch_url=(url,), elasticsearch_prefix=_PREFIX)
        return _run(over_node, url, note, pages, given)


def _run(
    settings: Settings,
    node: str | None,
    note: Path,
    pages: list[Page],
    given: argparse.Namespace,
) -> int:
    if not note.exists():
        now = utc_now()
        asyncio.run(fill(settings, given.tests, given.events, now))
        note.write_text(format_timestamp(now))
    loaded_at = parse_timestamp(note.read_text())
    key = asyncio.run(add_key(settings, loaded_at))
    place = Place(settings, node, key, loaded_at)
    return 0 if asyncio.run(measure(place, pages, given.rounds)) else 1


if __name__ == "__main__":
    sys.exit(main())
