"""Times the pages of the dashboard over a large repository: `python -m benchmarks.dashboard`.

Each page is asked for as a browser does after signing in; no page twice, so that no answer is
cached. The time is from sending the request to the end of the page. `ELASTICSEARCH_URL` measures
over a node there instead of SQLite.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import aiohttp

from indexing.failures.traces import pack_trace
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, Execution
from indexing.models.keys import Scope
from indexing.store import open_store
from indexing.store.interface import Store
from service.app import create_app
from service.auth.api_keys import make_key, make_key_id
from service.config.settings import Settings
from service.context import utc_now
from service.server.listener import http_url
from service.server.process import bind, start
from service.ui.pages.overview import RANGES
from tests.builders import WIDGETS, make_executions, make_run

TESTS = 100_000
DAYS = 5
JOB = "linux"
# The number of requests for each kind of page, each with a different query.
ASKED = 20
_BATCH = 10_000


def name_of(number: int) -> str:
    return f"tests/area_{number % 50}/test_{number % 997}.py::test_the_widget_number_{number}"


async def load(store: Store, tests: int) -> None:
    """Load one result a day for each test; one in fifty is flaky, one in a hundred broken."""
    await store.ensure_repository(WIDGETS)
    now = utc_now()
    for day in range(DAYS):
        at = now - timedelta(days=DAYS - day)
        run = make_run(str(day), job=JOB, commit=f"{day:040x}")
        for begin in range(0, tests, _BATCH):
            numbers = range(begin, min(tests, begin + _BATCH))
            results = [(name_of(number), conclude(number, day)) for number in numbers]
            executions = make_executions(run, results, at, duration=0.1)
            await store.write_executions(WIDGETS, run, [*with_failures(executions)])
    await store.refresh_tests(now)


def conclude(number: int, day: int) -> Conclusion:
    fails = number % 100 == 0 or (number % 50 == 1 and day % 2)
    return Conclusion.FAILED if fails else Conclusion.PASSED


def with_failures(executions: list[Execution]) -> Iterator[Execution]:
    trace = pack_trace("Traceback:\n" + "  in a function of a file\n" * 40)
    for each in executions:
        if each.conclusion is Conclusion.FAILED:
            yield replace(each, failure_type="Error", failure_message="no", failure_trace=trace)
        else:
            yield each


def pages() -> dict[str, list[str]]:
    """Return the paths to request, by kind of page."""
    home = "/ui/acme/widgets"
    of_tests = [
        f"{home}/tests/{derive_test_id(WIDGETS, name_of(50 * n + 1))}" for n in range(ASKED)
    ]
    return {
        "repositories": ["/ui/"] * ASKED,
        # The page has two ranges, so only two uncached requests are possible.
        "overview": [f"{home}?days={days}" for days in RANGES],
        "worst": [f"{home}/worst"],
        "tests, worst first": [f"{home}/tests?job_name={JOB}&cache={n}" for n in range(ASKED)],
        "tests, by name": [f"{home}/tests?test_name=number_{n}" for n in range(ASKED)],
        "one test": of_tests,
        "quarantines": [f"{home}/quarantines?branch=b{n}" for n in range(ASKED)],
    }


async def sign_in(client: aiohttp.ClientSession, base: str, key: str) -> None:
    async with client.get(f"{base}/ui/sign-in") as response:
        found = re.search('name="csrf" value="([^"]+)"', await response.text())
    if found is None:
        raise RuntimeError("no form to sign in")
    form = {"csrf": found[1], "key": key}
    async with client.post(f"{base}/ui/sign-in", data=form, headers={"Origin": base}) as response:
        response.raise_for_status()


async def measure(client: aiohttp.ClientSession, url: str) -> tuple[float, int]:
    began = time.perf_counter()
    async with client.get(url) as response:
        body = await response.read()
        response.raise_for_status()
    return (time.perf_counter() - began) * 1000, len(body)


async def run(folder: Path, tests: int) -> None:
    settings = Settings(data_dir=folder)
    if url := os.environ.get("ELASTICSEARCH_URL"):
        prefix = f"dashboard-{os.getpid()}"
        settings = replace(settings, elasticsearch_url=(url,), elasticsearch_prefix=prefix)
    store = await open_store(settings.store)
    began = time.perf_counter()
    await load(store, tests)
    print(f"loaded {tests:,} tests in {time.perf_counter() - began:.0f} s")
    key, record = make_key(
        key_id=make_key_id(),
        name="bench",
        scope=Scope.QUARANTINE,
        owner=WIDGETS.owner,
        repository=None,
        created_at=utc_now(),
    )
    await store.add_key(record)
    with bind("127.0.0.1", 0) as sock:
        runner = await start(create_app(settings, store), sock)
        # Cookies of an address without a name are kept too.
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as client:
            base = http_url(sock)
            await sign_in(client, base, key)
            for name, paths in pages().items():
                found = [await measure(client, base + path) for path in paths]
                times = sorted(each for each, _ in found)
                print(
                    f"{name:20} first {found[0][0]:6.0f} ms, median {statistics.median(times):6.0f}"
                    f" ms, slowest {times[-1]:6.0f} ms, {found[0][1] / 1000:5.0f} kB unpacked"
                )
        await runner.cleanup()


def main() -> None:
    tests = int(sys.argv[1]) if len(sys.argv) > 1 else TESTS
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), tests))


if __name__ == "__main__":
    main()
