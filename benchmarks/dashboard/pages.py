"""The pages that are measured, and what a browser gets of each."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import aiohttp

from benchmarks.dashboard.data import JOBS, LONG, name_of
from indexing.identifiers import derive_test_id
from service.ui.pages.overview import RANGES
from service.ui.pages.tests import SORTS
from tests.builders import WIDGETS

HOME: Final = f"/ui/{WIDGETS.owner}/{WIDGETS.name}"
_ASSET: Final = re.compile(rb'(?:href|src)="(/ui/_/[^"#]+)')


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its path; a part comes after the first content, requested by a script."""

    name: str
    path: str
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page, the seconds until its last byte, and the CPU time of the service and this client."""

    seconds: float
    cpu_seconds: float
    body: bytes
    packed_bytes: int


def list_pages() -> Iterator[Page]:
    """Yield every page of the dashboard that reads a store, with its filters and sorts."""
    yield Page("repositories", "/ui/")
    for days in RANGES:
        yield Page(f"overview of {days} days", f"{HOME}?days={days}")
    yield Page("worst groups, slowest tests", f"{HOME}/worst", is_part=True)
    tests = f"{HOME}/tests"
    for sort in SORTS:
        yield Page(f"tests by {sort}", f"{tests}?sort={sort}")
    for name, value in (
        ("test_name", "number_77"),
        ("test_name", "*test_1*"),
        ("test_name", name_of(4_321)),
        ("test_filepath", "tests/area_7/*"),
        ("pipeline_name", "ci"),
        ("job_name", JOBS[1]),
        ("health_status", "broken"),
        ("health_status", "flaky"),
        ("health_status", "unknown"),
        ("health_status", "healthy"),
        ("quarantined", "true"),
        ("quarantined", "false"),
    ):
        yield Page(f"tests with {name} {value[:20]}", f"{tests}?{urlencode({name: value})}")
    broken = urlencode({"test_name": "area_7", "health_status": "broken", "job_name": JOBS[0]})
    yield Page("tests with a name, a health and a job", f"{tests}?{broken}")
    for name, test in (("a flaky test", name_of(51)), ("a test with a long history", LONG)):
        page = f"{tests}/{derive_test_id(WIDGETS, test)}"
        yield Page(name, page)
    yield Page("failed executions of that test", f"{page}?conclusion=failed")
    yield Page("quarantines", f"{HOME}/quarantines")
    events = f"{HOME}/events"
    yield Page("events of 7 days", events)
    yield Page("events of 30 days", f"{events}?last=30d")
    yield Page("events of a pull request", f"{events}?last=30d&pull_request=4444")
    yield Page("events of a type", f"{events}?last=30d&event_type=action.queue.leave")
    yield Page("events with an outcome", f"{events}?last=30d&outcome=failure")
    yield Page("API reference", "/ui/docs")


async def fetch(client: aiohttp.ClientSession, url: str, page: Page) -> Fetched:
    """Request a page as a browser does; the client must not decompress it."""
    sent = {"Accept-Encoding": "gzip", **({"HX-Request": "true"} if page.is_part else {})}
    began, worked = time.perf_counter(), time.process_time()
    async with client.get(url + page.path, headers=sent) as response:
        body = await response.read()
        response.raise_for_status()
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - worked
    return Fetched(seconds, cpu_seconds, gzip.decompress(body), len(body))


async def weigh_assets(client: aiohttp.ClientSession, url: str, body: bytes) -> int:
    """Return the compressed bytes of all that a page loads."""
    total = 0
    for path in {each.decode() for each in _ASSET.findall(body)}:
        async with client.get(url + path, headers={"Accept-Encoding": "gzip"}) as response:
            response.raise_for_status()
            total += int(response.headers["Content-Length"])
    return total
