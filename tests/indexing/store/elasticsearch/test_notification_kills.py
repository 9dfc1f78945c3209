"""Refreshes and quarantines that are killed between any two requests tell of each change once."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from indexing.models.executions import Conclusion
from indexing.models.notifications import NotificationType, Webhook, WebhookFormat
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import KilledError, limit_requests

# Only every few requests: each step of a change takes at least as many.
STRIDE = 2

P, F = Conclusion.PASSED, Conclusion.FAILED
BROKEN, RECOVERED = NotificationType.BROKEN, NotificationType.RECOVERED
QUARANTINED = NotificationType.QUARANTINED


async def load(store: Store, round_: int, conclusion: Conclusion) -> None:
    """Load results that make a test of this round broken, or that let it pass."""
    start = after(minutes=round_ * 10 + (conclusion is F) * 5)
    runs = {}
    for number in range(3):
        run = make_run(f"{round_} {conclusion} {number}", commit=f"{round_}{conclusion}{number}")
        at = start + timedelta(minutes=number)
        runs[run] = make_executions(run, [(f"test {round_}", conclusion)], at)
    await store.write_results(WIDGETS, runs)


@dataclass
class NotifiedTest:
    """A test, and what a webhook was told of it: by id, as a receiver drops what it has already."""

    name: str
    store: Store
    webhook: Webhook
    told: dict[uuid.UUID, NotificationType] = field(default_factory=dict)

    async def load(self, day: int, conclusion: Conclusion, refreshing: Store) -> None:
        """Load enough results of one day to make the test broken or healthy; send what waits."""
        runs = {}
        for number in range(3 if conclusion is F else 12):
            run = make_run(f"{self.name} {day} {number}", commit=f"{day} {number}")
            at = after(days=day, minutes=number)
            runs[run] = make_executions(run, [(self.name, conclusion)], at)
        await self.store.write_results(WIDGETS, runs)
        try:
            await refreshing.refresh_tests(after(days=day, hours=1), repository=WIDGETS)
        finally:
            waiting = await self.store.list_outbox(self.webhook.id, 100)
            await self.store.remove_sent(self.webhook.id, [each.id for each in waiting])
            self.told |= {each.id: each.type for each in waiting}


async def refresh(store: Store, round_: int, seconds: int = 0) -> None:
    now = after(minutes=round_ * 10 + 9, seconds=seconds)
    await store.refresh_tests(now, repository=WIDGETS)


async def quarantine(store: Store, round_: int, seconds: int = 0) -> None:
    request = QuarantineRequest(f"test {round_}", "it sticks")
    now = after(minutes=round_ * 10 + 9, seconds=seconds)
    await store.add_quarantine(WIDGETS, request, now)


@pytest.fixture
async def webhook(store: ElasticsearchStore) -> Webhook:
    made = Webhook(
        uuid.uuid4(), WIDGETS, WebhookFormat.STANDARD, "https://a.example/", b"s" * 24, NOON
    )
    await store.add_webhook(made)
    return made


@pytest.mark.usefixtures("leases_expire_soon")
@pytest.mark.parametrize(
    ("change", "expected"),
    [(refresh, [QUARANTINED, BROKEN]), (quarantine, [QUARANTINED])],
)
async def test_the_next_call_completes_the_notification_of_a_killed_change(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    webhook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[..., Awaitable[None]],
    expected: list[NotificationType],
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    requests = limit_requests(store, monkeypatch)
    allowed, killed = 0, True
    while killed:
        await load(other, allowed, P)
        await refresh(other, allowed)
        if change is refresh:
            await load(other, allowed, F)
        requests.left = allowed
        try:
            await change(store, allowed)
            killed = False
        except KilledError:
            await change(other, allowed, 5)
        told = await other.list_outbox(webhook.id, 100)
        assert sorted(each.type for each in told) == sorted(expected), allowed
        assert {each.test_name for each in told} == {f"test {allowed}"}
        await other.remove_sent(webhook.id, [each.id for each in told])
        allowed += STRIDE
    assert allowed > 2 * STRIDE


@pytest.mark.usefixtures("leases_expire_soon")
async def test_a_recovery_after_a_killed_notification_is_told(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    webhook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = limit_requests(store, monkeypatch)
    allowed, killed, told_early = 0, True, 0
    while killed:
        test = NotifiedTest(f"test {allowed}", other, webhook)
        await test.load(0, P, other)
        requests.left = allowed
        try:
            await test.load(1, F, store)
            killed = False
        except KilledError:
            told_early += bool(test.told)
        # It became healthy before anybody refreshed it again, and stayed so for days.
        await test.load(2, P, other)
        await test.load(4, P, other)
        first = list(test.told.values())
        assert first in ([], [BROKEN, RECOVERED]), allowed
        assert killed or first
        await test.load(6, F, other)
        assert list(test.told.values()) == [*first, BROKEN], allowed
        allowed += 1
    assert told_early
