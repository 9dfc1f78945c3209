"""Two loads and a reader on one SQLite file: no data is lost, and every answer is right."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import orjson

from hardening import seeding
from hardening.findings import Finding
from hardening.harness import Harness
from hardening.raw_http import RawConnection
from hardening.seeding import SeededRepository, seed_new_store
from indexing.timestamps import format_timestamp
from tests.places import Place

EVENTS = 40_000
_PAGE = 100


async def run(harness: Harness, *, events: int = EVENTS) -> list[Finding]:
    place = await harness.new_store("sqlite")
    (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    folder = harness.new_folder("events")
    files = [write_events(folder / f"{n}.ndjson", n, events, at) for n in (1, 2)]
    async with harness.serve(place, log_level="info") as running:
        over = asyncio.Event()
        reader = asyncio.create_task(_read(running.port, key, seeded, over))
        began = time.monotonic()
        said = await asyncio.gather(
            *(harness.command(place, "ingest", "events", str(file)) for file in files)
        )
        took = time.monotonic() - began
        over.set()
        reads, wrong = await reader
    there = await count_events(harness, place, key, seeded)
    expected = 2 * events + seeding.EVENTS
    failed = [words[-1][-200:] for words in said if words[0] != 0]
    return [
        Finding(
            "two loads and a reader on one SQLite file",
            f"2 × {events:,} events in {took:.0f} s, {there:,} of {expected:,} found; "
            f"{reads:,} concurrent reads, {len(wrong)} of them not 200 or out of order",
            "all found, 0",
            there == expected and not wrong and not failed and not running.service_errors(),
            "; ".join([*wrong[:2], *failed]),
        )
    ]


def write_events(path: Path, number: int, count: int, at: datetime) -> Path:
    """Write events whose ids no other file has."""
    event = {
        "received_at": format_timestamp(at),
        "trigger": "rule",
        "repository": "acme/widgets",
        "pull_request": number,
        "base_ref": "main",
        "type": "action.rebase",
        "metadata": {},
    }
    with path.open("wb") as file:
        for each in range(count):
            file.write(orjson.dumps({"id": number * 10**9 + each, **event}) + b"\n")
    return path


async def count_events(harness: Harness, place: Place, key: str, seeded: SeededRepository) -> int:
    """Count the distinct events by walking the log of a service with an empty cache."""
    async with harness.serve(place, log_level="info") as running:
        connection = RawConnection(running.port)
        ids: set[tuple[int, str]] = set()
        following: str | None = f"{seeded.targets()['events'].partition('?')[0]}?per_page={_PAGE}"
        while following is not None:
            response = await connection.request(following, key)
            if response.status != HTTPStatus.OK:
                break
            events = orjson.loads(response.body)["events"]
            ids.update((event["id"], event["received_at"]) for event in events)
            links = ", ".join(value for name, value in response.headers if name == "link")
            found = re.search(r'<https?://[^/<>]*([^<>]*)>; rel="next"', links)
            following = found and found[1]
        connection.abort()
        return len(ids)


async def _read(
    port: int, key: str, seeded: SeededRepository, over: asyncio.Event
) -> tuple[int, list[str]]:
    connection = RawConnection(port)
    reads, wrong = 0, []
    targets = [seeded.targets()["events"], seeded.targets()["search"]]
    while not over.is_set():
        for target in targets:
            response = await connection.request(f"{target}&unseen={reads}", key)
            reads += 1
            if response.status != HTTPStatus.OK:
                wrong.append(f"{response.status} to {target}")
                continue
            rows = orjson.loads(response.body).get("events", ())
            keys = [(row["received_at"], row["id"]) for row in rows]
            if keys != sorted(keys, reverse=True):
                wrong.append("a page out of order")
    connection.abort()
    return reads, wrong
