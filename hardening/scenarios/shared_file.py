"""Two loads and a reader on one SQLite file: no data is lost, and every answer is right."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import orjson

from hardening.findings import Finding
from hardening.ground import Ground
from hardening.stock import Stock, prepared
from hardening.wire import Wire
from indexing.timestamps import format_timestamp
from tests.places import Place

EVENTS = 40_000
_PAGE = 100


async def run(ground: Ground, *, events: int = EVENTS) -> list[Finding]:
    place = await ground.place("sqlite")
    (stock,), key = await prepared(ground, place, ["acme/widgets"])
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    folder = ground.new_folder("events")
    files = [write_events(folder / f"{n}.ndjson", n, events, at) for n in (1, 2)]
    async with ground.serve(place, log_level="info") as running:
        over = asyncio.Event()
        reader = asyncio.create_task(_read(running.port, key, stock, over))
        began = time.monotonic()
        said = await asyncio.gather(
            *(ground.command(place, "ingest", "events", str(file)) for file in files)
        )
        took = time.monotonic() - began
        over.set()
        reads, wrong = await reader
    there = await count_events(ground, place, key, stock)
    expected = 2 * events + 40
    failed = [words[-1][-200:] for words in said if words[0] != 0]
    return [
        Finding(
            "two loads and a reader on one SQLite file",
            f"2 × {events:,} events in {took:.0f} s, {there:,} of {expected:,} there; "
            f"{reads:,} reads meanwhile, {len(wrong)} of them not 200 or not in order",
            "all there, 0",
            there == expected and not wrong and not failed and not running.mistakes(),
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


async def count_events(ground: Ground, place: Place, key: str, stock: Stock) -> int:
    """Count the distinct events by walking the log of a service with an empty cache."""
    async with ground.serve(place, log_level="info") as running:
        wire = Wire(running.port)
        ids: set[tuple[int, str]] = set()
        following: str | None = f"{stock.targets()['events'].partition('?')[0]}?per_page={_PAGE}"
        while following is not None:
            told = await wire.ask(following, key)
            if told.status != HTTPStatus.OK:
                break
            events = orjson.loads(told.body)["events"]
            ids.update((event["id"], event["received_at"]) for event in events)
            links = ", ".join(value for name, value in told.headers if name == "link")
            found = re.search(r'<https?://[^/<>]*([^<>]*)>; rel="next"', links)
            following = found and found[1]
        wire.abort()
        return len(ids)


async def _read(port: int, key: str, stock: Stock, over: asyncio.Event) -> tuple[int, list[str]]:
    wire = Wire(port)
    reads, wrong = 0, []
    targets = [stock.targets()["events"], stock.targets()["search"]]
    while not over.is_set():
        for target in targets:
            told = await wire.ask(f"{target}&unseen={reads}", key)
            reads += 1
            if told.status != HTTPStatus.OK:
                wrong.append(f"{told.status} to {target}")
                continue
            rows = orjson.loads(told.body).get("events", ())
            keys = [(row["received_at"], row["id"]) for row in rows]
            if keys != sorted(keys, reverse=True):
                wrong.append("a page out of order")
    wire.abort()
    return reads, wrong
