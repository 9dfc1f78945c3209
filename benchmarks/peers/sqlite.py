"""The peer's reads of the service's own SQLite file, by `sqlite3` in FastAPI's threads."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import orjson
from starlette.concurrency import run_in_threadpool

from benchmarks.peers.interface import EventPage, EventPlace, PeerStore, Search
from benchmarks.peers.models import Quarantine, TestDetail, TestIdentity

T = TypeVar("T")


class SqliteStore(PeerStore):
    """One connection for each thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def in_thread() -> T:
            connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = sqlite3.connect(self._path)
                connection.row_factory = sqlite3.Row
                self._local.connection = connection
            return work(connection)

        found: T = await run_in_threadpool(in_thread)
        return found

    async def is_allowed(self, digest: bytes, repository: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            key = connection.execute(
                "SELECT owner, repository, expires_at, revoked_at FROM application_keys"
                " WHERE digest = ?",
                (digest,),
            ).fetchone()
            if key is None or key["revoked_at"] is not None:
                return False
            if key["expires_at"] is not None and moment_of(key["expires_at"]) <= datetime.now(UTC):
                return False
            owner, _, name = repository.partition("/")
            if key["owner"].lower() != owner or key["repository"] not in (None, name):
                return False
            known = connection.execute(
                "SELECT 1 FROM repositories WHERE key = ?", (repository,)
            ).fetchone()
            return known is not None

        return await self._run(work)

    async def find_test(self, repository: str, test_id: UUID) -> TestDetail | None:
        def work(connection: sqlite3.Connection) -> TestDetail | None:
            row = connection.execute(
                "SELECT t.*, r.owner, r.name, r.flaky_detection FROM tests t"
                " JOIN repositories r ON r.id = t.repository_id WHERE t.test_id = ? AND r.key = ?",
                (test_id.bytes, repository),
            ).fetchone()
            return None if row is None else _detail_of(row)

        return await self._run(work)

    async def list_quarantines(self, repository: str, branch: str | None) -> list[Quarantine]:
        def work(connection: sqlite3.Connection) -> list[Quarantine]:
            rows = connection.execute(
                "SELECT q.* FROM quarantines q JOIN repositories r ON r.id = q.repository_id"
                " WHERE r.key = ? AND q.removed_at IS NULL"
                " AND (q.expires_at IS NULL OR q.expires_at > ?)"
                " AND (q.branch IS NULL OR ? IS NULL OR ? GLOB q.branch)"
                " ORDER BY q.created_at, q.id",
                (repository, microseconds_of(datetime.now(UTC)), branch, branch),
            )
            return [_quarantine_of(row) for row in rows]

        return await self._run(work)

    async def list_events(
        self,
        repository: str,
        received_from: datetime,
        received_to: datetime,
        after: EventPlace | None,
        limit: int,
    ) -> EventPage:
        def work(connection: sqlite3.Connection) -> EventPage:
            place = "" if after is None else " AND (e.received_at, e.id) < (?, ?)"
            rows = connection.execute(
                "SELECT e.received_at, e.id, e.body FROM events e WHERE e.repository_id ="
                " (SELECT id FROM repositories WHERE key = ?)"
                f" AND e.received_at >= ? AND e.received_at < ?{place}"
                " ORDER BY e.received_at DESC, e.id DESC LIMIT ?",
                (
                    repository,
                    microseconds_of(received_from),
                    microseconds_of(received_to),
                    *([] if after is None else [after.received_at, after.id]),
                    limit + 1,
                ),
            ).fetchall()
            page = rows[:limit]
            last = EventPlace(page[-1][0], page[-1][1]) if len(rows) > limit else None
            return EventPage([orjson.loads(row["body"]) for row in page], last)

        return await self._run(work)

    async def search_tests(self, search: Search) -> list[TestIdentity]:
        def work(connection: sqlite3.Connection) -> list[TestIdentity]:
            names = " OR ".join("i.test_name GLOB ?" for _ in search.patterns)
            excluded = ", ".join("?" for _ in search.jobs_excluded)
            rows = connection.execute(
                "SELECT t.test_id, i.test_name, i.pipeline_name, i.job_name FROM identities i"
                " JOIN tests t ON t.id = i.test WHERE i.repository_id ="
                " (SELECT id FROM repositories WHERE key = ?) AND i.executions_count IS NOT NULL"
                f" AND ({names}) AND i.job_name NOT IN ({excluded})"
                " ORDER BY i.executions_count DESC, i.test_name DESC, i.pipeline_name DESC,"
                " i.job_name DESC LIMIT ?",
                (
                    search.repository,
                    *(pattern.replace("[", "[[]") for pattern in search.patterns),
                    *search.jobs_excluded,
                    search.limit,
                ),
            )
            return [
                TestIdentity(
                    test_id=UUID(bytes=row["test_id"]),
                    test_name=row["test_name"],
                    pipeline_name=row["pipeline_name"],
                    job_name=row["job_name"],
                )
                for row in rows
            ]

        return await self._run(work)


def moment_of(microseconds: int) -> datetime:
    """Return the moment for the value of a column."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def microseconds_of(moment: datetime) -> int:
    """Return the value of a column for a moment."""
    return round(moment.timestamp() * 1_000_000)


def _moment_or_none(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else moment_of(microseconds)


def _detail_of(row: Any) -> TestDetail:
    return TestDetail(
        repository=f"{row['owner']}/{row['name']}",
        test_name=row["test_name"],
        test_id=UUID(bytes=row["test_id"]),
        health_status=row["health_status"],
        last_conclusion=row["last_conclusion"],
        failure_ratio=row["failure_ratio"],
        flakiness_ratio=row["flakiness_ratio"],
        success_ratio=row["success_ratio"],
        flaky_detection_enabled=bool(row["flaky_detection"]),
        first_failure_at=_moment_or_none(row["first_failure_at"]),
        first_failure_commit=row["first_failure_commit"],
        first_failure_pull=orjson.loads(row["first_failure_pull"] or b"null"),
        last_failure_at=_moment_or_none(row["last_failure_at"]),
        last_success_at=_moment_or_none(row["last_success_at"]),
        test_framework=row["framework"],
        test_framework_version=row["framework_version"],
        test_programming_language=row["language"],
        test_filepath=row["filepath"],
        test_function_name=row["function_name"],
    )


def _quarantine_of(row: Any) -> Quarantine:
    return Quarantine(
        id=UUID(bytes=row["id"]),
        test_name=row["test_name"],
        reason=row["reason"],
        branch=row["branch"],
        created_at=moment_of(row["created_at"]),
        source=row["source"],
        is_recovered=bool(row["is_recovered"]),
    )
