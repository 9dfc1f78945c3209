"""Two tenants of one service: one attacks, the other is watched meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus

from hardening.bodies import HostileBody
from hardening.harness import Harness, Running
from hardening.raw_http import NoResponseError, RawConnection
from hardening.seeding import Keys, SeededRepository, seed_store, warm
from hardening.watcher import Watcher, watch
from indexing.models.keys import Scope
from indexing.store import open_store
from tests.places import Place

WATCHED = "acme/widgets"
SENDER = "umbrella/sender"


@dataclass
class Tenants:
    """The service, the watched tenant, and the sender."""

    running: Running
    watched: SeededRepository
    watched_key: str = field(repr=False)
    sender: SeededRepository
    sender_key: str = field(repr=False)
    watcher: Watcher

    @property
    def port(self) -> int:
        return self.running.port

    def path(self, to: str) -> str:
        """Return the sender's path for `logs` or `traces`."""
        return path_of(self.sender, to)

    async def send(self, body: HostileBody, sent: Sent) -> None:
        """Send one body over a new connection and count the outcome."""
        connection = RawConnection(self.port)
        path = self.path(body.to)
        try:
            response = await connection.request(
                path, self.sender_key, *body.headers, method="POST", body=body.data
            )
        except (NoResponseError, OSError, TimeoutError) as error:
            sent.unanswered.append(f"{body.name}: {type(error).__name__}")
        else:
            sent.record(
                response.status,
                response.header("retry-after"),
                f"{body.name}: {response.body[:120]!r}",
            )
        finally:
            connection.abort()


@dataclass
class Sent:
    """The outcomes of uploads."""

    statuses: Counter[int] = field(default_factory=Counter)
    service_errors: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)

    def record(self, status: int, retry_after: str | None, what: str) -> None:
        self.statuses[status] += 1
        refused = status == HTTPStatus.SERVICE_UNAVAILABLE and retry_after is not None
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not refused:
            self.service_errors.append(f"{status} to {what}")

    def __str__(self) -> str:
        each = [f"{count:,} × {status}" for status, count in sorted(self.statuses.items())]
        return ", ".join([*each, f"{len(self.unanswered)} without an answer"])


def path_of(seeded: SeededRepository, to: str) -> str:
    """Return a repository's path for `logs`, `traces` or `ci/traces`."""
    if to == "traces":
        return f"/v1/ci/{seeded.name.owner}/repositories/{seeded.name.name}/traces"
    return f"/v1/repos/{seeded.name.owner}/{seeded.name.name}/{to}"


async def make_tenants(
    harness: Harness, place: Place
) -> tuple[SeededRepository, str, SeededRepository, str]:
    """Seed the store for both tenants; return both repositories, each with a key."""
    store = await open_store(place)
    try:
        watched, sender = await seed_store(store, [WATCHED, SENDER])
        keys = Keys(harness, store)
        watched_key = await keys.make(watched.name.owner, scope=Scope.ADMIN)
        sender_key = await keys.make(sender.name.owner, scope=Scope.ADMIN)
        await store.refresh_tests(datetime.now(UTC))
    finally:
        await store.close()
    return watched, watched_key, sender, sender_key


@asynccontextmanager
async def watched_tenants(
    harness: Harness, place: Place, **settings: str
) -> AsyncIterator[Tenants]:
    """Run a service over an empty store that accepts uploads; watch it until the end."""
    watched, watched_key, sender, sender_key = await make_tenants(harness, place)
    given = {"ingest": "true", "metrics": "true", "log_level": "info", **settings}
    async with harness.serve(place, **given) as running:
        await warm(running.port, watched, watched_key)
        await warm(running.port, sender, sender_key)
        target = watched.targets()["test"]
        async with watch(running.port, target, watched_key) as watcher:
            yield Tenants(running, watched, watched_key, sender, sender_key, watcher)
