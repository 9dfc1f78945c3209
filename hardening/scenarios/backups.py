"""Backups under load: each restores every write acknowledged before it began."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

import orjson

from hardening.bodies import NDJSON, make_event, make_result
from hardening.findings import Finding, brief
from hardening.harness import Harness
from hardening.raw_http import NoResponseError, RawConnection
from hardening.tenants import Tenants, watched_tenants
from hardening.walking import walk_events
from indexing.identifiers import derive_test_id
from indexing.timestamps import to_microseconds
from tests.places import Place

TIMES = 4
CLIENTS = 4
EVENTS_AT_ONCE = 20
_PAUSE: Final = 1.0
_KIND: Final = {"logs": NDJSON, "traces": "application/json"}


@dataclass
class _Load:
    """Clients that send without a pause, and record when each item was acknowledged."""

    tenants: Tenants
    now: datetime
    events: dict[int, float] = field(default_factory=dict)
    tests: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _number: int = 0

    @asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[None]:
        over = asyncio.Event()

        async def send_requests(client: int) -> None:
            connection = RawConnection(self.tenants.port)
            while not over.is_set():
                await (self._send_test(connection) if client % 2 else self._send_events(connection))
            connection.abort()

        async with asyncio.TaskGroup() as group:
            for client in range(clients):
                group.create_task(send_requests(client))
            try:
                yield
            finally:
                over.set()

    async def _send_events(self, connection: RawConnection) -> None:
        ids = range(self._number + 1, self._number + 1 + EVENTS_AT_ONCE)
        self._number += EVENTS_AT_ONCE
        lines = [orjson.dumps(make_event(number, "action.rebase", {})) for number in ids]
        if await self._post(connection, "logs", b"\n".join(lines)):
            self.events.update(dict.fromkeys(ids, time.monotonic()))

    async def _send_test(self, connection: RawConnection) -> None:
        self._number += 1
        name = f"saved.{self._number}"
        at = to_microseconds(self.now) * 1_000
        if await self._post(connection, "traces", make_result(name, "passed", at, self._number)):
            self.tests[name] = time.monotonic()

    async def _post(self, connection: RawConnection, to: str, body: bytes) -> bool:
        kind = b"Content-Type: " + _KIND[to].encode()
        path = self.tenants.path(to)
        try:
            response = await connection.request(
                path, self.tenants.sender_key, kind, method="POST", body=body
            )
        except (NoResponseError, OSError, TimeoutError) as error:
            self.failures.append(type(error).__name__)
            return False
        if response.status != HTTPStatus.OK:
            self.failures.append(f"{response.status}: {response.body[:100]!r}")
        return response.status == HTTPStatus.OK


@dataclass(frozen=True)
class _Backup:
    file: Path
    began: float
    took: float
    status: int
    said: str


async def run(
    harness: Harness, *, times: int = TIMES, clients: int = CLIENTS, pause: float = _PAUSE
) -> list[Finding]:
    place = await harness.new_store("sqlite")
    folder = harness.new_folder("backups")
    now = datetime.now(UTC).replace(microsecond=0)
    backups = []
    async with watched_tenants(harness, place) as tenants:
        load = _Load(tenants, now)
        async with tenants.watcher.during("backups"), load.running(clients):
            for number in range(times):
                await asyncio.sleep(pause)
                backups.append(await _back_up(harness, place, folder / f"{number}.db"))
            await asyncio.sleep(pause)
        restored = [await _restore(harness, load, backup) for backup in backups]
    failed = [brief(backup.said) for backup in backups if backup.status]
    lost = [loss for loss in restored if loss]
    service_errors = tenants.running.service_errors()
    took = max(backup.took for backup in backups)
    return [
        Finding(
            "backups under load, restored",
            f"{times} backups, up to {len(load.events):,} acknowledged events and "
            f"{len(load.tests):,} tests, at most {took:.1f} s each: {len(failed)} failed, "
            f"{len(lost)} lack an acknowledged write; {len(load.failures)} requests failed",
            "0, 0, 0",
            not failed
            and not lost
            and not load.failures
            and not service_errors
            and bool(load.events),
            "; ".join([*failed[:1], *lost[:2], *load.failures[:1], *service_errors[:1]]),
        ),
        tenants.watcher.report("backups"),
    ]


async def _back_up(harness: Harness, place: Place, file: Path) -> _Backup:
    began = time.monotonic()
    status, _, said = await harness.command(place, "index", "backup", str(file))
    return _Backup(file, began, time.monotonic() - began, status, said)


async def _restore(harness: Harness, load: _Load, backup: _Backup) -> str:
    """Restore the file; return what is missing, if anything."""
    if not backup.file.is_file():
        return "no file"
    folder = harness.new_folder("restored")
    file = folder / "mergewatch.db"
    file.write_bytes(backup.file.read_bytes())
    with closing(sqlite3.connect(file)) as connection:
        (checked,) = connection.execute("PRAGMA integrity_check").fetchone()
    events = {number for number, at in load.events.items() if at < backup.began}
    tests = [name for name, at in load.tests.items() if at < backup.began]
    tenants = load.tenants
    async with harness.serve(folder, log_level="info") as running:
        there = await walk_events(
            running.port,
            tenants.sender_key,
            tenants.sender,
            load.now - timedelta(hours=2),
            load.now + timedelta(hours=2),
        )
        missing = [name for name in tests if not await _is_there(running.port, tenants, name)]
    if checked != "ok":
        return f"the file is damaged: {checked}"
    if events - there or missing:
        return (
            f"{len(events - there)} of {len(events)} events and {len(missing)} of {len(tests)} "
            "tests missing"
        )
    return ""


async def _is_there(port: int, tenants: Tenants, name: str) -> bool:
    connection = RawConnection(port)
    repository = tenants.sender.name
    path = f"/v1/ci/{repository.owner}/repositories/{repository.name}/tests/"
    response = await connection.request(
        path + str(derive_test_id(repository, name)), tenants.sender_key
    )
    connection.abort()
    return (
        response.status == HTTPStatus.OK
        and orjson.loads(response.body)["health_status"] == "healthy"
    )
