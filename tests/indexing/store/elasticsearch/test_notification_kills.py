"""Refreshes and quarantines that are killed between any two requests tell of each change once."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from indexing.models.executions import Conclusion
from indexing.models.notifications import NotificationType, Webhook, WebhookFormat
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.store.elasticsearch.indices import refresh_lease
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import KilledError, limit_requests

# Only every few requests: each step of a change takes at least as many.
STRIDE = 2

P, F = Conclusion.PASSED, Conclusion.FAILED
BROKEN, QUARANTINED = NotificationType.BROKEN, NotificationType.QUARANTINED


async def load(store: Store, round_: int, conclusion: Conclusion) -> None:
    """Load results that make a test of this round broken, or that let it pass."""
    start = after(minutes=round_ * 10 + (conclusion is F) * 5)
    runs = {}
    for number in range(3):
        run = make_run(f"{round_} {conclusion} {number}", commit=f"{round_}{conclusion}{number}")
        at = start + timedelta(minutes=number)
        runs[run] = make_executions(run, [(f"test {round_}", conclusion)], at)
    await store.write_results(WIDGETS, runs)


async def refresh(store: Store, round_: int, seconds: int = 0) -> None:
    now = after(minutes=round_ * 10 + 9, seconds=seconds)
    await store.refresh_tests(now, repository=WIDGETS)


async def quarantine(store: Store, round_: int, seconds: int = 0) -> None:
    request = QuarantineRequest(f"test {round_}", "it sticks")
    now = after(minutes=round_ * 10 + 9, seconds=seconds)
    await store.add_quarantine(WIDGETS, request, now)


@pytest.mark.parametrize(
    ("change", "expected"),
    [(refresh, [QUARANTINED, BROKEN]), (quarantine, [QUARANTINED])],
)
async def test_the_next_call_completes_the_notification_of_a_killed_change(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[..., Awaitable[None]],
    expected: list[NotificationType],
) -> None:
    # The dead hold no lease for long.
    monkeypatch.setattr(refresh_lease, "EXPIRES_SECONDS", 0.05)
    monkeypatch.setattr(refresh_lease, "LOOK_SECONDS", 0.01)
    webhook = Webhook(
        uuid.uuid4(), WIDGETS, WebhookFormat.STANDARD, "https://a.example/", b"s" * 24, NOON
    )
    await store.add_webhook(webhook)
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
