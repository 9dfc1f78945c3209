"""The client for asyncio."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final, Self, Unpack, cast
from uuid import UUID

import orjson

from mergewatch.client.bodies import (
    AddedQuarantine,
    Event,
    EventIntake,
    Quarantine,
    QuarantineChange,
    TestDetail,
    TestIdentity,
)
from mergewatch.client.errors import ForeignServiceError
from mergewatch.client.filters import (
    EventFilters,
    PageSize,
    QuarantineFilters,
    QuarantineOptions,
    TestFilters,
)
from mergewatch.client.links import next_query
from mergewatch.client.requests import encode_query, events_path, tests_path
from mergewatch.client.rows import Rows
from mergewatch.client.transport import Response, Sleep, Transport

# The largest page: the fewest requests for a walk.
_PER_PAGE: Final = 100
_GZIP_LEVEL: Final = 6


class AsyncClient:
    """Requests to one service with one key; `repository` is always `owner/repository`.

    Every method raises `ProblemError`, `UnreachableError` or `ForeignServiceError`.
    """

    def __init__(self, url: str, token: str, *, sleep: Sleep = asyncio.sleep) -> None:
        """Create it on the event loop that it is used on; sends nothing yet."""
        self._transport = Transport(url, token, sleep=sleep)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def list_events(self, repository: str, **filters: Unpack[EventFilters]) -> Rows[Event]:
        """Walk the event log, newest first; by default that of the last day."""
        return self._rows(events_path(repository), "events", filters)

    def search_tests(
        self, repository: str, test_name: str | list[str] = "*", **filters: Unpack[TestFilters]
    ) -> Rows[TestIdentity]:
        """Walk the tests whose names match one of the globs."""
        path = tests_path(repository, "search", "tests")
        return self._rows(path, "tests", {"test_name": test_name, **filters})

    async def get_test(self, repository: str, test_id: UUID | str) -> TestDetail:
        """Return one test over all its pipelines and jobs."""
        return cast("TestDetail", await self._get(tests_path(repository, "tests", test_id)))

    def list_quarantines(
        self, repository: str, **filters: Unpack[QuarantineFilters]
    ) -> Rows[Quarantine]:
        """Walk the quarantines in force, oldest first."""
        return self._rows(tests_path(repository, "quarantines"), "quarantined_tests", filters)

    async def get_quarantine(self, repository: str, quarantine_id: UUID | str) -> Quarantine:
        """Return one quarantine in force."""
        path = tests_path(repository, "quarantines", quarantine_id)
        return cast("Quarantine", await self._get(path))

    async def add_quarantine(
        self, repository: str, test_name: str, reason: str, **options: Unpack[QuarantineOptions]
    ) -> AddedQuarantine:
        """Quarantine a test; the same test and branch again changes the quarantine in force."""
        wanted = {"test_name": test_name, "reason": reason, **options}
        response = await self._transport.send(
            "POST",
            tests_path(repository, "quarantines"),
            body=orjson.dumps(wanted),
            headers={"Content-Type": "application/json"},
        )
        return cast("AddedQuarantine", self._read(response))

    async def remove_quarantine(self, repository: str, quarantine_id: UUID | str) -> None:
        """End a quarantine."""
        path = tests_path(repository, "quarantines", quarantine_id)
        await self._transport.send("DELETE", path)

    def list_quarantine_changes(
        self, repository: str, **filters: Unpack[PageSize]
    ) -> Rows[QuarantineChange]:
        """Walk the changes of quarantines, newest first."""
        return self._rows(tests_path(repository, "quarantines", "changes"), "changes", filters)

    async def send_events(self, repository: str, lines: bytes) -> EventIntake:
        """Send events of that repository, one JSON object a line. Sending again changes nothing."""
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        body = await asyncio.to_thread(gzip.compress, lines, _GZIP_LEVEL, mtime=0)
        response = await self._transport.send(
            "POST", events_path(repository), body=body, headers=headers
        )
        return cast("EventIntake", self._read(response))

    async def send_traces(self, repository: str, request: bytes) -> bytes:
        """Send an OTLP `ExportTraceServiceRequest` in protobuf; return the response message.

        Sending the same spans again changes nothing.
        """
        kind = "application/x-protobuf"
        body = await asyncio.to_thread(gzip.compress, request, _GZIP_LEVEL, mtime=0)
        response = await self._transport.send(
            "POST",
            tests_path(repository, "traces"),
            body=body,
            headers={"Content-Type": kind, "Content-Encoding": "gzip"},
        )
        if response.content_type != kind:
            raise self._foreign()
        return response.body

    def shown(self, text: str) -> str:
        """Shorten text that a service sent, and mask the token in it."""
        return self._transport.shown(text)

    def _rows(self, path: str, rows: str, filters: Mapping[str, object]) -> Rows[Any]:
        query = encode_query({"per_page": _PER_PAGE, **filters})
        return Rows(partial(self._pages, path, rows, query))

    async def _pages(self, path: str, rows: str, query: str) -> AsyncIterator[list[Any]]:
        while True:
            response = await self._transport.send("GET", path, query=query)
            page = self._read(response).get(rows)
            if not isinstance(page, list):
                raise self._foreign()
            yield page
            following = next_query(response.link)
            if following is None or following == query:
                return
            query = following

    async def _get(self, path: str) -> Mapping[str, Any]:
        return self._read(await self._transport.send("GET", path))

    def _read(self, response: Response) -> Mapping[str, Any]:
        try:
            body: object = orjson.loads(response.body)
        except orjson.JSONDecodeError:
            raise self._foreign() from None
        if not isinstance(body, dict):
            raise self._foreign()
        return body

    def _foreign(self) -> ForeignServiceError:
        return ForeignServiceError(f"{self._transport.url} is not a mergewatch service")
