"""Webhooks, and the notifications in their outboxes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from indexing.errors import TooManyWebhooksError
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.notifications import (
    MAX_WEBHOOKS,
    Notification,
    NotificationType,
    OutboxCount,
    Webhook,
    WebhookFormat,
)
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import HealthStatus
from indexing.store.interface import Store
from tests.builders import GADGETS, NOON, WIDGETS, after, make_executions, make_run, make_webhook
from tests.contracts.conftest import on_stores_and_one_cache

pytestmark = on_stores_and_one_cache

P, F = Conclusion.PASSED, Conclusion.FAILED
FLAKY, BROKEN = NotificationType.FLAKY, NotificationType.BROKEN
RECOVERED, QUARANTINED = NotificationType.RECOVERED, NotificationType.QUARANTINED
EXPIRING = NotificationType.EXPIRING


class Runs:
    """Loads runs, one after another, each of its own commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number = 0
        # How far the clock of the store's process is ahead.
        self.ahead = timedelta()

    async def load(self, at: datetime, times: int = 1, **results: Conclusion) -> None:
        """Load that many runs with the same results, a minute apart, and refresh the tests."""
        loaded = {}
        for minute in range(times):
            self._number += 1
            run = make_run(str(self._number), commit=f"commit{self._number}")
            moment = at + timedelta(minutes=minute)
            loaded[run] = make_executions(run, results.items(), moment)
        await self._store.write_results(WIDGETS, loaded)
        now = at + timedelta(minutes=times) + self.ahead
        await self._store.refresh_tests(now, repository=WIDGETS)

    async def break_(self, at: datetime, *names: str) -> None:
        await self.load(at, 5, **dict.fromkeys(names, F))

    async def mend(self, at: datetime, *names: str) -> None:
        await self.load(at, 40, **dict.fromkeys(names, P))


async def outbox(store: Store, webhook: Webhook) -> list[tuple[NotificationType, str]]:
    return [(each.type, each.test_name) for each in await store.list_outbox(webhook.id, 100)]


async def send_all(store: Store, webhook: Webhook) -> list[Notification]:
    sent = list(await store.list_outbox(webhook.id, 100))
    await store.remove_sent(webhook.id, [each.id for each in sent])
    return sent


@pytest.fixture
async def webhook(store: Store) -> Webhook:
    made = make_webhook()
    await store.add_webhook(made)
    return made


async def test_webhooks_are_listed_and_removed(store: Store) -> None:
    first = make_webhook()
    second = make_webhook(at=after(minutes=1), style=WebhookFormat.SLACK)
    third = make_webhook(GADGETS, after(minutes=2))
    for each in (third, first, second, first):
        await store.add_webhook(each)
    assert await store.list_webhooks() == [first, second, third]
    assert await store.list_webhooks(WIDGETS) == [first, second]
    assert not await store.remove_webhook(GADGETS, first.id)
    assert await store.remove_webhook(WIDGETS, first.id)
    assert not await store.remove_webhook(WIDGETS, first.id)
    assert await store.list_webhooks(WIDGETS) == [second]
    # A change of settings does not remove webhooks.
    await store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    assert await store.list_webhooks(WIDGETS) == [second]


async def test_a_repository_has_few_webhooks(store: Store) -> None:
    for _ in range(MAX_WEBHOOKS):
        await store.add_webhook(make_webhook())
    with pytest.raises(TooManyWebhooksError):
        await store.add_webhook(make_webhook())
    await store.add_webhook(make_webhook(GADGETS))


async def test_of_webhooks_added_at_once_only_those_with_room_are_listed(store: Store) -> None:
    webhooks = [make_webhook(at=after(minutes=n)) for n in range(MAX_WEBHOOKS + 2)]
    done = await asyncio.gather(*map(store.add_webhook, webhooks), return_exceptions=True)
    assert sum(isinstance(each, TooManyWebhooksError) for each in done) == 2
    added = [webhook for webhook, each in zip(webhooks, done, strict=True) if each is None]
    assert await store.list_webhooks(WIDGETS) == added


async def test_a_change_of_health_waits_for_each_webhook(store: Store, webhook: Webhook) -> None:
    other = make_webhook(style=WebhookFormat.SLACK)
    await store.add_webhook(other)
    foreign = make_webhook(GADGETS)
    await store.add_webhook(foreign)
    runs = Runs(store)
    await runs.load(NOON, hinge=P, door=P)
    assert await outbox(store, webhook) == []
    await runs.break_(after(hours=1), "hinge")
    (found,) = await store.list_outbox(webhook.id, 100)
    assert found.type is BROKEN
    assert (found.test_name, found.test_id) == ("hinge", derive_test_id(WIDGETS, "hinge"))
    assert found.previous is HealthStatus.HEALTHY
    assert found.at == after(hours=1, minutes=5)
    assert await store.list_outbox(other.id, 100) == [found]
    assert await store.list_outbox(foreign.id, 100) == []
    assert await store.find_waiting() == {webhook.id, other.id}
    await store.remove_sent(webhook.id, [found.id])
    assert await outbox(store, webhook) == []
    assert await store.list_outbox(other.id, 100) == [found]
    assert await store.find_waiting() == {other.id}


async def test_changes_before_the_first_webhook_are_not_notified(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    runs = Runs(store)
    await runs.break_(NOON, "hinge")
    webhook = make_webhook(at=after(minutes=30))
    await store.add_webhook(webhook)
    await runs.break_(after(hours=1), "hinge")
    assert await outbox(store, webhook) == []
    await runs.mend(after(hours=2), "hinge")
    assert await outbox(store, webhook) == [(RECOVERED, "hinge")]


async def test_a_flapping_test_is_notified_once_a_day(store: Store, webhook: Webhook) -> None:
    runs = Runs(store)
    await runs.load(NOON, hinge=P)
    for hour in range(1, 13, 3):
        await runs.break_(after(hours=hour), "hinge")
        await runs.mend(after(hours=hour + 1), "hinge")
    assert [each.type for each in await send_all(store, webhook)] == [BROKEN]
    # A day later it is told how it is by then, with the next results.
    await runs.load(after(hours=24), hinge=P)
    assert await outbox(store, webhook) == []
    await runs.load(after(hours=26), hinge=P)
    last = await store.list_outbox(webhook.id, 100)
    assert len(last) == 1
    assert last[0].type is not BROKEN
    assert last[0].previous is HealthStatus.BROKEN


async def test_a_forgotten_test_that_breaks_again_is_a_new_notification(
    store: Store, webhook: Webhook
) -> None:
    runs = Runs(store)
    ids = set()
    for day in range(2):
        await runs.load(after(days=3 * day), hinge=P)
        await runs.break_(after(days=3 * day, hours=1), "hinge")
        *_, found = await store.list_outbox(webhook.id, 100)
        assert found.type is BROKEN
        ids.add(found.id)
        # A dead letter stays, and must not hide the new one.
        await store.give_up(webhook.id, [found.id])
        await store.forget_test(WIDGETS, "hinge", after(days=3 * day + 1))
    assert len(ids) == 2
    assert (await store.count_outbox(webhook.id)).dead == 2


async def test_a_webhook_that_is_removed_takes_nothing_from_the_others(
    store: Store, webhook: Webhook
) -> None:
    runs = Runs(store)
    await runs.load(NOON, hinge=P, door=P)
    await runs.break_(after(hours=1), "hinge", "door")
    later = make_webhook(at=after(minutes=1))
    await store.add_webhook(later)
    await runs.mend(after(hours=3), "hinge")
    # The new one is added before the old ones are removed.
    last = make_webhook(at=after(hours=5))
    await store.add_webhook(last)
    assert await store.remove_webhook(WIDGETS, webhook.id)
    assert await store.remove_webhook(WIDGETS, later.id)
    # No other notification within a day, and after it the one that was suppressed.
    await runs.mend(after(hours=6), "door")
    assert await outbox(store, last) == []
    await runs.load(after(hours=26), hinge=P, door=P)
    assert sorted(await outbox(store, last)) == [(RECOVERED, "door"), (RECOVERED, "hinge")]


async def test_a_webhook_of_a_machine_whose_clock_is_behind_takes_nothing_from_the_others(
    store: Store, webhook: Webhook
) -> None:
    runs = Runs(store)
    await runs.load(after(minutes=1), hinge=P)
    await runs.break_(after(hours=1), "hinge")
    await store.add_webhook(make_webhook(at=NOON - timedelta(minutes=1)))
    await runs.mend(after(hours=2), "hinge")
    await runs.break_(after(hours=4), "hinge")
    # No other notification within a day.
    assert await outbox(store, webhook) == [(BROKEN, "hinge")]


async def test_a_forgotten_test_that_is_quarantined_again_is_a_new_notification(
    store: Store, webhook: Webhook
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    runs = Runs(store)
    for hours in (0, 5):
        await runs.load(after(hours=hours), hinge=P)
        await runs.break_(after(hours=hours + 1), "hinge")
        sent = await send_all(store, webhook)
        assert sorted(each.type.value for each in sent) == ["quarantine.added", "test.broken"]
        await store.forget_test(WIDGETS, "hinge", after(hours=hours + 3))


async def test_after_all_webhooks_were_removed_notifications_begin_anew(
    store: Store, webhook: Webhook
) -> None:
    runs = Runs(store)
    await runs.break_(NOON, "hinge")
    await store.remove_webhook(WIDGETS, webhook.id)
    await runs.mend(after(hours=1), "hinge")
    later = make_webhook(at=after(hours=2))
    await store.add_webhook(later)
    await runs.load(after(hours=3), hinge=P)
    assert await outbox(store, later) == []
    await runs.break_(after(hours=4), "hinge")
    assert await outbox(store, later) == [(BROKEN, "hinge")]


async def test_a_quarantine_is_notified_once_a_day(store: Store, webhook: Webhook) -> None:
    request = QuarantineRequest("hinge", "it sticks", branch="release/*")
    for hour in range(3):
        added = await store.add_quarantine(WIDGETS, request, after(hours=hour))
        # The same again changes its reason at most.
        await store.add_quarantine(WIDGETS, request, after(hours=hour))
        await store.remove_quarantine(WIDGETS, added.quarantine.key.id, after(hours=hour))
    await store.add_quarantine(GADGETS, request, NOON)
    (found,) = await send_all(store, webhook)
    assert (found.type, found.test_name) == (QUARANTINED, "hinge")
    assert found.quarantine is not None
    assert found.quarantine.reason == "it sticks"
    assert found.quarantine.branch == "release/*"
    await store.add_quarantine(WIDGETS, request, after(hours=25))
    assert await outbox(store, webhook) == [(QUARANTINED, "hinge")]


@pytest.mark.parametrize("ahead", [timedelta(hours=12), timedelta(days=300)])
async def test_notifications_of_a_clock_that_was_ahead_silence_no_later_ones(
    store: Store, webhook: Webhook, ahead: timedelta
) -> None:
    runs = Runs(store)
    await runs.load(NOON, hinge=P)
    runs.ahead = ahead
    await runs.break_(after(hours=1), "hinge")
    request = QuarantineRequest("door", "it sticks")
    added = await store.add_quarantine(WIDGETS, request, NOON + ahead)
    await store.remove_quarantine(WIDGETS, added.quarantine.key.id, NOON + ahead)
    assert len(await send_all(store, webhook)) == 2
    runs.ahead = timedelta()
    await runs.mend(after(hours=2), "hinge")
    await store.add_quarantine(WIDGETS, request, after(hours=3))
    assert await outbox(store, webhook) == [(RECOVERED, "hinge"), (QUARANTINED, "door")]


async def test_automatic_quarantines_are_notified_after_their_cause(
    store: Store, webhook: Webhook
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    names = [f"hinge{number}" for number in range(8)]
    await Runs(store).break_(after(hours=1), *names)
    found = await outbox(store, webhook)
    assert sorted(found) == sorted((kind, name) for kind in (BROKEN, QUARANTINED) for name in names)
    assert all(found.index((BROKEN, name)) < found.index((QUARANTINED, name)) for name in names)
    # They have the time of the refresh.
    assert {each.at for each in await store.list_outbox(webhook.id, 100)} == {
        after(hours=1, minutes=5)
    }


async def test_the_expiry_of_a_quarantine_is_notified_a_day_before(
    store: Store, webhook: Webhook
) -> None:
    end = after(days=3)
    request = QuarantineRequest("hinge", "it sticks", expires_at=end)
    await store.add_quarantine(WIDGETS, request, NOON)
    short = QuarantineRequest("door", "it sticks", expires_at=after(hours=20))
    await store.add_quarantine(WIDGETS, short, NOON)
    await store.add_quarantine(GADGETS, request, NOON)
    await send_all(store, webhook)
    assert await store.notice_expiring(after(days=1)) == 0
    assert await store.notice_expiring(after(days=2)) == 1
    assert await store.notice_expiring(after(days=2, hours=1)) == 0
    (found,) = await send_all(store, webhook)
    assert (found.type, found.test_name) == (EXPIRING, "hinge")
    assert found.quarantine is not None
    assert found.quarantine.expires_at == end
    # One that lasts longer is told of again.
    longer = QuarantineRequest("hinge", "it sticks", expires_at=after(days=6))
    await store.add_quarantine(WIDGETS, longer, after(days=2, hours=2))
    assert await store.notice_expiring(after(days=2, hours=3)) == 0
    assert await store.notice_expiring(after(days=5, hours=1)) == 1
    assert await store.notice_expiring(after(days=7)) == 0


async def test_dead_letters_are_queued_again_on_request(store: Store, webhook: Webhook) -> None:
    await Runs(store).break_(NOON, "hinge", "door", "wall")
    first, second, third = await store.list_outbox(webhook.id, 100)
    assert await store.list_outbox(webhook.id, 1) == [first]
    await store.give_up(webhook.id, [first.id, second.id])
    assert await store.list_outbox(webhook.id, 100) == [third]
    assert await store.count_outbox(webhook.id) == OutboxCount(1, 2, third.at)
    assert {each.retried_at for each in (first, second, third)} == {None}
    again = after(days=2)
    assert await store.retry_dead(webhook.id, again) == 2
    revived = [replace(each, retried_at=again) for each in (first, second)]
    # They keep their place and their time, and count as waiting since now.
    assert await store.list_outbox(webhook.id, 100) == [*revived, third]
    assert [each.waits_since for each in revived] == [again, again]
    assert await store.count_outbox(webhook.id) == OutboxCount(3, 0, first.at)
    await store.remove_sent(webhook.id, [first.id, second.id, third.id])
    assert await store.count_outbox(webhook.id) == OutboxCount(0, 0, None)


async def test_all_aged_notifications_become_dead_letters_together(
    store: Store, webhook: Webhook
) -> None:
    runs = Runs(store)
    await runs.break_(NOON, "hinge", "door")
    first = await store.list_outbox(webhook.id, 100)
    await store.give_up(webhook.id, [each.id for each in first])
    request = QuarantineRequest("hinge", "it sticks")
    await store.add_quarantine(WIDGETS, request, after(hours=1))
    await store.add_quarantine(GADGETS, request, after(hours=1))
    await runs.break_(after(hours=2), "wall")
    await store.retry_dead(webhook.id, after(hours=3))
    assert await store.give_up_aged(webhook.id, after(minutes=59)) == 0
    # Those that were queued again are first in the outbox, but wait for less long.
    assert await store.give_up_aged(webhook.id, after(hours=1)) == 1
    assert await store.count_outbox(webhook.id) == OutboxCount(3, 1, first[0].at)
    assert await store.give_up_aged(webhook.id, after(hours=2, minutes=5)) == 1
    assert len(await outbox(store, webhook)) == 2
    assert await store.give_up_aged(webhook.id, after(hours=3)) == 2
    assert await store.count_outbox(webhook.id) == OutboxCount(0, 4, None)


async def test_an_outbox_goes_with_its_webhook_and_with_retention(
    store: Store, webhook: Webhook
) -> None:
    runs = Runs(store)
    await runs.break_(NOON, "hinge")
    await store.prune(after(hours=-1), after(days=1))
    assert await outbox(store, webhook) == [(BROKEN, "hinge")]
    await store.prune(after(days=1), after(days=2))
    assert await outbox(store, webhook) == []
    await runs.mend(after(days=3), "hinge")
    assert await store.drop_orphans() == 0
    assert len(await outbox(store, webhook)) == 1
    await store.remove_webhook(WIDGETS, webhook.id)
    assert await outbox(store, webhook) == []
    assert await store.drop_orphans() == 0
