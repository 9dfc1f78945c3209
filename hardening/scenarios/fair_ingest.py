"""One tenant uploads large bodies: another tenant's small upload is answered without delay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from time import monotonic
from typing import Final

from hardening.bodies import HostileBody, make_spans, traces
from hardening.findings import Finding, median, milliseconds
from hardening.harness import STORES, Harness
from hardening.raw_http import NoResponseError, RawConnection
from hardening.tenants import Sent, Tenants, path_of, watched_tenants

SPANS = 20_000
# Concurrent large bodies: as many as the service parses at once, and many more.
CONCURRENT = (2, 8)
BOUND = 1.0
SECONDS = 15.0
_PAUSE: Final = 0.1
_ALONE_SECONDS: Final = 4.0


@dataclass
class _Small:
    """A sequence of bodies with one span each, each of a new test."""

    tenants: Tenants
    at: datetime
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _number: int = 0

    async def send(self, connection: RawConnection) -> None:
        self._number += 1
        body = make_spans(self._number, 1, self.at, run_id=900_000 + self._number)
        path = path_of(self.tenants.watched, "traces")
        kind = b"Content-Type: application/json"
        try:
            response = await connection.request(
                path, self.tenants.watched_key, kind, method="POST", body=body
            )
        except (NoResponseError, OSError, TimeoutError) as error:
            self.failures.append(type(error).__name__)
            return
        self.seconds.append(response.seconds)
        if response.status != HTTPStatus.OK or b"rejected" in response.body:
            self.failures.append(f"{response.status}: {response.body[:100]!r}")

    def pop_outcomes(self) -> tuple[list[float], list[str]]:
        """Return the outcomes since the last call."""
        taken = self.seconds, self.failures
        self.seconds, self.failures = [], []
        return taken


async def run(
    harness: Harness,
    *,
    spans: int = SPANS,
    seconds: float = SECONDS,
    concurrent: Sequence[int] = CONCURRENT,
    stores: Sequence[str] = STORES,
) -> list[Finding]:
    at = datetime.now(UTC).replace(microsecond=0)
    large = [
        traces(f"{spans:,} spans", make_spans(0, spans, at, run_id=number))
        for number in range(max(concurrent))
    ]
    found = []
    for store in stores:
        for many in concurrent:
            place = await harness.new_store(store)
            what = f"{many} concurrent uploads of {spans:,} spans by one credential, {store}"
            async with watched_tenants(harness, place) as tenants:
                small = await _try(tenants, large[:many], seconds, at, what)
            found += [small, tenants.watcher.report(what)]
    return found


async def _try(
    tenants: Tenants, large: Sequence[HostileBody], seconds: float, at: datetime, what: str
) -> Finding:
    small, sent = _Small(tenants, at), Sent()
    async with _sending(small):
        await asyncio.sleep(_ALONE_SECONDS)
        alone, troubles = small.pop_outcomes()
        end = monotonic() + seconds
        async with tenants.watcher.during("large bodies"), asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_send_repeatedly(tenants, body, sent, end)) for body in large
            ]
            await asyncio.wait(tasks, timeout=seconds)
            # The sender disconnects; later uploads are not awaited.
            for task in tasks:
                task.cancel()
        beside, failures = small.pop_outcomes()
    slow = sum(each >= BOUND for each in beside)
    # Refusing large bodies is fine if the response asks the sender to retry.
    service_errors = [*sent.service_errors, *tenants.running.service_errors()]
    return Finding(
        f"uploads of one span by another owner during {what}",
        f"{len(beside)} uploads: median {milliseconds(median(beside))}, longest "
        f"{milliseconds(max(beside, default=0.0))}, {slow} late, {len(failures)} failed; "
        f"without load: {len(alone)}, median {milliseconds(median(alone))}, longest "
        f"{milliseconds(max(alone, default=0.0))}; the large uploads: {sent}",
        f"each 200 within {BOUND:.0f} s",
        bool(beside) and not (slow or failures or troubles or service_errors),
        "; ".join(dict.fromkeys([*troubles[:2], *failures[:2], *service_errors[:2]])),
    )


@asynccontextmanager
async def _sending(small: _Small) -> AsyncIterator[None]:
    """Send small bodies until the context exits, and wait for the last answer."""
    over = asyncio.Event()

    async def send() -> None:
        connection = RawConnection(small.tenants.port)
        while not over.is_set():
            await small.send(connection)
            await asyncio.sleep(_PAUSE)
        connection.abort()

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        try:
            yield
        finally:
            over.set()


async def _send_repeatedly(tenants: Tenants, body: HostileBody, sent: Sent, end: float) -> None:
    """Send a large body repeatedly, even if it is refused."""
    while monotonic() < end:
        await tenants.send(body, sent)
        await asyncio.sleep(_PAUSE)
