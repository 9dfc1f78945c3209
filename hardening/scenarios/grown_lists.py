"""A list that gains a second page: its first page gets a new ETag."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import orjson

from hardening.bodies import NDJSON, make_event, make_result
from hardening.findings import Finding
from hardening.ground import STORES, Ground
from hardening.stock import EVENTS, Stock, prepared
from hardening.tenants import path_of
from hardening.walking import link_of
from hardening.wire import Told, Wire
from indexing.models.keys import Scope
from indexing.timestamps import format_timestamp, to_microseconds
from tests.places import Place

_PATIENCE: Final = 5.0
_PAUSE: Final = 0.05
_PULL: Final = 4711


@dataclass
class _Lists:
    """A service and its lists; each list starts with one row."""

    ground: Ground
    place: Place
    settings: dict[str, str] = field(repr=False)
    stock: Stock
    key: str = field(repr=False)
    wire: Wire
    now: datetime
    _added: int = 0

    @property
    def _ci(self) -> str:
        return f"/v1/ci/{self.stock.name.owner}/repositories/{self.stock.name.name}"

    @property
    def targets(self) -> dict[str, str]:
        """Return targets whose range and order put the second row after the first."""
        start, end = (
            quote(format_timestamp(self.now + timedelta(hours=hours))) for hours in (-20, 1)
        )
        window = f"received_from={start}&received_to={end}"
        search = f"{self._ci}/search/tests?test_name=grown.*&sort=test_name&direction=asc"
        return {
            "events": f"{path_of(self.stock, 'logs')}?pull_request={_PULL}&{window}&per_page=1",
            "search": f"{search}&per_page=1",
            "quarantines": f"{self._ci}/quarantines?branch=grown&per_page=1",
        }

    async def add_event(self) -> None:
        self._added += 1
        # The stock has events of its own, and may be from the same second.
        event = make_event(EVENTS + self._added, "action.rebase", {}) | {
            "repository": str(self.stock.name),
            "pull_request": _PULL,
            "received_at": format_timestamp(self.now - timedelta(hours=self._added)),
        }
        await self._post("logs", NDJSON, orjson.dumps(event))

    async def add_test(self) -> None:
        self._added += 1
        at = to_microseconds(self.now) * 1_000
        body = make_result(f"grown.{self._added:03}", "passed", at, self._added)
        await self._post("traces", "application/json", body)

    async def add_quarantine(self) -> None:
        self._added += 1
        words = ("quarantine", "add", "--repository", str(self.stock.name), "--branch", "grown")
        test = f"suite.test_{self._added:02}"
        status, _, said = await self.ground.command(
            self.place, *words, "--test", test, "--reason", "grown", **self.settings
        )
        if status:
            raise RuntimeError(said)

    async def _post(self, to: str, kind: str, body: bytes) -> None:
        path = path_of(self.stock, to)
        headers = (b"Content-Type: " + kind.encode(),)
        told = await self.wire.ask(path, self.key, *headers, method="POST", body=body)
        said = orjson.loads(told.body)
        if told.status != HTTPStatus.OK or said.get("refused") or said.get("partialSuccess"):
            raise RuntimeError(f"{told.status} to {path}: {told.body[:200]!r}")

    async def until(self, target: str, is_there: Callable[[Told], bool]) -> Told:
        """Repeat the request until the check holds: a write by another process may show late."""
        end = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            told = await self.wire.ask(target, self.key)
            if is_there(told) or asyncio.get_running_loop().time() > end:
                return told
            await asyncio.sleep(_PAUSE)


async def run(ground: Ground, *, stores: Sequence[str] = STORES) -> list[Finding]:
    found = []
    for store in stores:
        with ground.redis() as redis:
            place = await ground.place(store)
            settings = {"redis_url": redis.url}
            (stock,), key = await prepared(ground, place, ["acme/widgets"], scope=Scope.ADMIN)
            async with ground.serve(place, ingest="true", **settings) as running:
                now = datetime.now(UTC).replace(microsecond=0)
                wire = Wire(running.port)
                lists = _Lists(ground, place, settings, stock, key, wire, now)
                for name, add in (
                    ("events", lists.add_event),
                    ("search", lists.add_test),
                    ("quarantines", lists.add_quarantine),
                ):
                    found.append(await _try(lists, name, add, store))
                wire.abort()
    return found


async def _try(lists: _Lists, name: str, add: Callable[[], Awaitable[None]], store: str) -> Finding:
    target = lists.targets[name]
    if name != "quarantines":
        # One quarantine of all branches already exists and is on every branch's list.
        await add()
    short = await lists.until(target, _has_row)
    tag = _tag_of(short)
    same = await _ask_again(lists, target, tag)
    await add()
    grown = await lists.until(target, _has_next)
    again = await _ask_again(lists, target, tag)
    known = await _ask_again(lists, target, _tag_of(grown))
    statuses = (same.status, again.status, known.status)
    # Without an ETag there is no conditional request, so no stale 304 is possible.
    expected = (304, 200, 304) if short.header("etag") else (200, 200, 200)
    told = ", ".join(map(str, statuses))
    return Finding(
        f"{name} that grew a second page, {store}",
        f"asked by the tag of the first answer before and after, and by that of the second: "
        f"{told}; `next` {'there' if _has_next(again) else 'not there'}",
        "304, 200 with `next`, 304; where there is no tag, 200 alone",
        statuses == expected and _has_next(grown) and _has_next(again) and not _has_next(short),
        "; ".join(
            ["the list never grew"] * (not _has_next(grown))
            + ["the answer has no tag"] * (short.header("etag") is None)
        ),
    )


async def _ask_again(lists: _Lists, target: str, tag: str) -> Told:
    return await lists.wire.ask(target, lists.key, b"If-None-Match: " + tag.encode())


def _tag_of(told: Told) -> str:
    return told.header("etag") or '"none"'


def _has_row(told: Told) -> bool:
    body = orjson.loads(told.body)
    rows = body.get("events", body.get("tests", body.get("quarantined_tests", ())))
    return len(rows) == 1


def _has_next(told: Told) -> bool:
    return link_of(told, "next") is not None
