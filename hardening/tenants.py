"""Two tenants of one service: one attacks, the other is watched meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus

from hardening.bodies import HostileBody
from hardening.ground import Ground, Running
from hardening.stock import Keys, Stock, fill, warm
from hardening.watcher import BASELINE_SECONDS, Watcher, watch
from hardening.wire import UnansweredError, Wire
from indexing.models.keys import Scope
from indexing.store import open_store
from tests.places import Place

WATCHED = "acme/widgets"
SENDER = "umbrella/sender"


@dataclass
class Tenants:
    """The service, the watched tenant, and the sender."""

    running: Running
    watched: Stock
    watched_key: str = field(repr=False)
    sender: Stock
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
        wire = Wire(self.port)
        path = self.path(body.to)
        try:
            told = await wire.ask(
                path, self.sender_key, *body.headers, method="POST", body=body.data
            )
        except (UnansweredError, OSError, TimeoutError) as error:
            sent.unanswered.append(f"{body.name}: {type(error).__name__}")
        else:
            sent.note(told.status, told.header("retry-after"), f"{body.name}: {told.body[:120]!r}")
        finally:
            wire.abort()


@dataclass
class Sent:
    """The outcomes of uploads."""

    statuses: Counter[int] = field(default_factory=Counter)
    mistakes: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)

    def note(self, status: int, retry_after: str | None, told: str) -> None:
        self.statuses[status] += 1
        refused = status == HTTPStatus.SERVICE_UNAVAILABLE and retry_after is not None
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not refused:
            self.mistakes.append(f"{status} to {told}")

    def __str__(self) -> str:
        each = [f"{count:,} × {status}" for status, count in sorted(self.statuses.items())]
        return ", ".join([*each, f"{len(self.unanswered)} without an answer"])


def path_of(stock: Stock, to: str) -> str:
    """Return a repository's path for `logs`, `traces` or `ci/traces`."""
    if to == "traces":
        return f"/v1/ci/{stock.name.owner}/repositories/{stock.name.name}/traces"
    return f"/v1/repos/{stock.name.owner}/{stock.name.name}/{to}"


async def make_tenants(ground: Ground, place: Place) -> tuple[Stock, str, Stock, str]:
    """Fill the store for both tenants; return both stocks, each with a key."""
    store = await open_store(place)
    try:
        watched, sender = await fill(store, [WATCHED, SENDER])
        keys = Keys(ground, store)
        watched_key = await keys.make(watched.name.owner, scope=Scope.ADMIN)
        sender_key = await keys.make(sender.name.owner, scope=Scope.ADMIN)
        await store.refresh_tests(datetime.now(UTC))
    finally:
        await store.close()
    return watched, watched_key, sender, sender_key


@asynccontextmanager
async def watched_tenants(
    ground: Ground, place: Place, *, baseline: float = BASELINE_SECONDS, **settings: str
) -> AsyncIterator[Tenants]:
    """Run a service over an empty store that accepts uploads; watch it until the end."""
    watched, watched_key, sender, sender_key = await make_tenants(ground, place)
    given = {"ingest": "true", "metrics": "true", "log_level": "info", **settings}
    async with ground.serve(place, **given) as running:
        await warm(running.port, watched, watched_key)
        await warm(running.port, sender, sender_key)
        target = watched.targets()["test"]
        async with watch(running.port, target, watched_key, baseline=baseline) as watcher:
            yield Tenants(running, watched, watched_key, sender, sender_key, watcher)
