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
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection, Response
from hardening.seeding import EVENTS, SeededRepository, seed_new_store
from hardening.tenants import path_of
from hardening.walking import link_of
from indexing.models.keys import Scope
from indexing.timestamps import format_timestamp, to_microseconds
from tests.places import Place

_TIMEOUT_SECONDS: Final = 5.0
_PAUSE: Final = 0.05
_PULL: Final = 4711


@dataclass
class _Lists:
    """A service and its lists; each list starts with one row."""

    harness: Harness
    place: Place
    settings: dict[str, str] = field(repr=False)
    seeded: SeededRepository
    key: str = field(repr=False)
    connection: RawConnection
    now: datetime
    _added: int = 0

    @property
    def _ci(self) -> str:
        return f"/v1/ci/{self.seeded.name.owner}/repositories/{self.seeded.name.name}"

    @property
    def targets(self) -> dict[str, str]:
        """Return targets whose range and order put the second row after the first."""
        start, end = (
            quote(format_timestamp(self.now + timedelta(hours=hours))) for hours in (-20, 1)
        )
        window = f"received_from={start}&received_to={end}"
        search = f"{self._ci}/search/tests?test_name=grown.*&sort=test_name&direction=asc"
        return {
            "events": f"{path_of(self.seeded, 'logs')}?pull_request={_PULL}&{window}&per_page=1",
            "search": f"{search}&per_page=1",
            "quarantines": f"{self._ci}/quarantines?branch=grown&per_page=1",
        }

    async def add_event(self) -> None:
        self._added += 1
        # The seeded repository has events of its own, and may be from the same second.
        event = make_event(EVENTS + self._added, "action.rebase", {}) | {
            "repository": str(self.seeded.name),
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
        words = ("quarantine", "add", "--repository", str(self.seeded.name), "--branch", "grown")
        test = f"suite.test_{self._added:02}"
        status, _, said = await self.harness.command(
            self.place, *words, "--test", test, "--reason", "grown", **self.settings
        )
        if status:
            raise RuntimeError(said)

    async def _post(self, to: str, kind: str, body: bytes) -> None:
        path = path_of(self.seeded, to)
        headers = (b"Content-Type: " + kind.encode(),)
        response = await self.connection.request(path, self.key, *headers, method="POST", body=body)
        said = orjson.loads(response.body)
        if response.status != HTTPStatus.OK or said.get("refused") or said.get("partialSuccess"):
            raise RuntimeError(f"{response.status} to {path}: {response.body[:200]!r}")

    async def until(self, target: str, is_expected: Callable[[Response], bool]) -> Response:
        """Repeat the request until the check holds: a write by another process may show late."""
        end = asyncio.get_running_loop().time() + _TIMEOUT_SECONDS
        while True:
            response = await self.connection.request(target, self.key)
            if is_expected(response) or asyncio.get_running_loop().time() > end:
                return response
            await asyncio.sleep(_PAUSE)


async def run(harness: Harness, *, stores: Sequence[str] = STORES) -> list[Finding]:
    found = []
    for store in stores:
        with harness.redis() as redis:
            place = await harness.new_store(store)
            settings = {"redis_url": redis.url}
            (seeded,), key = await seed_new_store(
                harness, place, ["acme/widgets"], scope=Scope.ADMIN
            )
            async with harness.serve(place, ingest="true", **settings) as running:
                now = datetime.now(UTC).replace(microsecond=0)
                connection = RawConnection(running.port)
                lists = _Lists(harness, place, settings, seeded, key, connection, now)
                for name, add in (
                    ("events", lists.add_event),
                    ("search", lists.add_test),
                    ("quarantines", lists.add_quarantine),
                ):
                    found.append(await _try(lists, name, add, store))
                connection.abort()
    return found


async def _try(lists: _Lists, name: str, add: Callable[[], Awaitable[None]], store: str) -> Finding:
    target = lists.targets[name]
    if name != "quarantines":
        # One quarantine of all branches already exists and is on every branch's list.
        await add()
    short = await lists.until(target, _has_row)
    tag = _tag_of(short)
    same = await _request_again(lists, target, tag)
    await add()
    grown = await lists.until(target, _has_next)
    again = await _request_again(lists, target, tag)
    known = await _request_again(lists, target, _tag_of(grown))
    statuses = (same.status, again.status, known.status)
    # Without an ETag there is no conditional request, so no stale 304 is possible.
    expected = (304, 200, 304) if short.header("etag") else (200, 200, 200)
    codes = ", ".join(map(str, statuses))
    return Finding(
        f"{name}: ETag when a second page appears, {store}",
        f"conditional requests with the first ETag before and after, and with the second: "
        f"{codes}; `next` {'present' if _has_next(again) else 'missing'}",
        "304, 200 with `next`, 304; only 200 if there is no ETag",
        statuses == expected and _has_next(grown) and _has_next(again) and not _has_next(short),
        "; ".join(
            ["the list never grew"] * (not _has_next(grown))
            + ["the response has no ETag"] * (short.header("etag") is None)
        ),
    )


async def _request_again(lists: _Lists, target: str, tag: str) -> Response:
    return await lists.connection.request(target, lists.key, b"If-None-Match: " + tag.encode())


def _tag_of(response: Response) -> str:
    return response.header("etag") or '"none"'


def _has_row(response: Response) -> bool:
    body = orjson.loads(response.body)
    rows = body.get("events", body.get("tests", body.get("quarantined_tests", ())))
    return len(rows) == 1


def _has_next(response: Response) -> bool:
    return link_of(response, "next") is not None
