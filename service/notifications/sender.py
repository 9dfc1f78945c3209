"""Sends the notifications in the outboxes. A lease lets one worker of all replicas send at a time.

A task for each webhook sends its notifications in order, one request after another. While its
receiver fails, they wait; after a day they become dead letters. If the process is killed after a
request and before the notification is removed, the same message is sent again with the same id.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from indexing.clocks import Clock, utc_now
from indexing.errors import MergewatchError
from indexing.fairness import FairSemaphore
from indexing.models.notifications import Notification, Webhook, WebhookFormat
from indexing.store.notifications import NotificationStore
from indexing.timestamps import lasts
from service.config.reach import Reach
from service.leases import ProcessLease
from service.notifications.delivery import Attempt, Delivery, Result
from service.notifications.messages import Message, make_slack, make_standard

LEASE: Final = "notifications"
LEASE_FOR: Final = timedelta(minutes=1)
RENEWED_EVERY: Final = timedelta(seconds=20)
# How often a process checks the outboxes, and how often it checks for expiring quarantines and for
# outboxes of removed webhooks.
LOOK_SECONDS: Final = 5.0
SWEEP_EVERY: Final = timedelta(minutes=10)
# How long each of the last two writes may take when the process ends: to remove what was sent, and
# to release the lease.
LAST_WRITE_SECONDS: Final = 1.0

# Sent notifications are removed in batches of this size; a kill can repeat one batch.
BATCH: Final = 20
# How often a batch that takes long checks that its webhook was not removed.
RECHECKED_EVERY: Final = timedelta(seconds=1)
# The lines of one message for Slack, which accepts about one message a second.
LINES: Final = 20
# How many webhooks have a turn at once, of all owners and of one: many receivers of one owner may
# hang at once. A webhook that has sent for this long queues for its next turn.
AT_ONCE: Final = 8
AT_ONCE_PER_OWNER: Final = 7
TURN: Final = timedelta(seconds=10)

FIRST_PAUSE: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(minutes=10)
GIVEN_UP_AFTER: Final = timedelta(days=1)
# After failing for so long without a break, a receiver is down; until then it may accept some.
DOWN_AFTER: Final = timedelta(hours=1)
# A message that was refused this many times becomes a dead letter, so that later ones are sent.
MAX_REFUSALS: Final = 3

_log = logging.getLogger(__name__)


async def send_notifications(
    store: NotificationStore, reach: Reach, dashboard_url: str | None
) -> None:
    """Send notifications until cancelled, with an HTTP client of its own."""
    delivery = Delivery.open(reach)
    try:
        await NotificationSender(store, delivery, dashboard_url=dashboard_url).run()
    finally:
        await delivery.close()


class Delivers(Protocol):
    """The interface of the HTTP client."""

    async def send(self, webhook: Webhook, message: Message, now: datetime, /) -> Attempt:
        """Send one message."""


@dataclass(slots=True)
class _Receiver:
    """The state of a receiver, kept by this process only."""

    failures: int = 0
    # The first failure since the receiver last accepted, refused or throttled a message.
    down_since: datetime | None = None
    # How often the receiver refused which notification.
    refusals: int = 0
    refused_id: uuid.UUID | None = None
    # The last failure, and how long to wait after it.
    failed_at: datetime | None = None
    pause: timedelta = FIRST_PAUSE
    # The number of notifications to send one by one, after a message with several was refused.
    alone: int = 0
    # What it has accepted and the store has not removed yet: it must not be sent again.
    sent: list[uuid.UUID] = field(default_factory=list)

    def waits(self, now: datetime) -> bool:
        """Return whether nothing is sent to it yet."""
        return lasts(self.failed_at, self.pause, now)


class NotificationSender:
    """The sender of one process."""

    def __init__(
        self,
        store: NotificationStore,
        delivery: Delivers,
        *,
        dashboard_url: str | None = None,
        clock: Clock = utc_now,
    ) -> None:
        """Create the sender; `dashboard_url` ends with a slash, and None means no links."""
        self._store = store
        self._delivery = delivery
        self._dashboard_url = dashboard_url
        self._clock = clock
        self._lease = ProcessLease(
            store, LEASE, length=LEASE_FOR, renewed_every=RENEWED_EVERY, clock=clock
        )
        self._swept_at: datetime | None = None
        self._receivers: dict[uuid.UUID, _Receiver] = {}
        self._tasks: dict[uuid.UUID, asyncio.Task[None]] = {}
        # The tenants are the owners.
        self._slots = FairSemaphore(AT_ONCE, AT_ONCE_PER_OWNER)
        self._is_ending = False
        # Whether the store has failed since the last look, and whether the log has a warning of it.
        self._has_failed = False
        self._has_warned = False

    async def run(self) -> None:
        """Send until cancelled; then release the lease, so that another process can continue."""
        try:
            while True:
                next_look = time.monotonic() + LOOK_SECONDS
                await self._try_to_look()
                await asyncio.sleep(max(0.0, next_look - time.monotonic()))
        finally:
            self._is_ending = True
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._lease.release(LAST_WRITE_SECONDS)

    async def _try_to_look(self) -> None:
        """Look once. Log one warning for each outage of the store, and one line at its end."""
        try:
            await self.look()
        except (MergewatchError, OSError) as error:
            self._log_failure(error)
        except Exception:  # noqa: BLE001 - the webhooks of all tenants depend on it
            _log.exception("unhandled error in the sender of notifications")
        else:
            if self._has_warned and not self._has_failed:
                _log.info("notifications can be sent again")
                self._has_warned = False
        self._has_failed = False

    def _log_failure(self, error: Exception) -> None:
        level = logging.DEBUG if self._has_warned else logging.WARNING
        _log.log(level, "notifications cannot be sent", extra={"reason": str(error)})
        self._has_failed = self._has_warned = True

    async def look(self) -> None:
        """Send all waiting notifications that are due, unless another process holds the lease.

        Those of slow receivers are still being sent when this returns.
        """
        self._drop_finished()
        now = self._clock()
        is_sweep_due = not lasts(self._swept_at, SWEEP_EVERY, now)
        waiting = await self._store.find_waiting()
        if not waiting and not is_sweep_due:
            return
        webhooks = await self._store.list_webhooks()
        known = {each.id for each in webhooks}
        self._receivers = {id_: each for id_, each in self._receivers.items() if id_ in known}
        if is_sweep_due:
            # Also without webhooks, and without the lease: several processes may do it.
            await self._store.drop_orphans()
        if not webhooks or not await self._lease.hold():
            # Only the process that sends checks for expiring quarantines.
            self._swept_at = now
            return
        if is_sweep_due:
            await self._store.notice_expiring(now)
            self._swept_at = now
            waiting = await self._store.find_waiting()
        for each in webhooks:
            if each.id in waiting and each.id not in self._tasks:
                self._tasks[each.id] = asyncio.create_task(self._send_waiting(each))
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=LOOK_SECONDS)
        self._drop_finished()

    def _drop_finished(self) -> None:
        """Forget the tasks that have ended; an unexpected error ends no other task."""
        for webhook_id in [each for each, task in self._tasks.items() if task.done()]:
            error = self._tasks.pop(webhook_id).exception()
            if error is not None:
                _log.error(
                    "notifications cannot be sent",
                    exc_info=error,
                    extra={"webhook": str(webhook_id)},
                )

    async def _send_waiting(self, webhook: Webhook) -> None:
        """Send until nothing is waiting or a request fails, in turns with the other webhooks."""
        receiver = self._receivers.setdefault(webhook.id, _Receiver())
        try:
            is_done = False
            while not is_done:
                async with self._slots.slot(webhook.repository.owner.lower()):
                    is_done = await self._send_for_a_turn(webhook, receiver)
        except (MergewatchError, OSError) as error:
            # The other webhooks continue.
            self._log_failure(error)

    async def _send_for_a_turn(self, webhook: Webhook, receiver: _Receiver) -> bool:
        """Return true if there is nothing to send for now, false if only the turn is over."""
        began_at = self._clock()
        await self._remove_sent(webhook, receiver)
        while not receiver.waits(self._clock()) and await self._lease.hold():
            batch = await self._store.list_outbox(webhook.id, BATCH)
            if not batch:
                return True
            await self._send_batch(webhook, receiver, batch, began_at)
            if not lasts(began_at, TURN, self._clock()):
                return False
        return True

    async def _send_batch(
        self,
        webhook: Webhook,
        receiver: _Receiver,
        batch: Sequence[Notification],
        began_at: datetime,
    ) -> None:
        """Send until the batch is done, the turn is over or a request fails; record the results."""
        sent = receiver.sent
        checked_at = self._clock()
        try:
            # However slow the store is, a turn sends at least one message.
            while len(sent) < len(batch) and (not sent or lasts(began_at, TURN, self._clock())):
                if not await self._lease.hold():
                    return
                if not lasts(checked_at, RECHECKED_EVERY, self._clock()):
                    # What was sent is still in the outbox, unless all of it was removed.
                    if not await self._store.list_outbox(webhook.id, 1):
                        return
                    checked_at = self._clock()
                part = _next_part(webhook, receiver, batch[len(sent) :])
                message = self._make_message(webhook, part)
                attempt = await self._delivery.send(webhook, message, self._clock())
                if attempt.result is not Result.SENT:
                    await self._note_failure(webhook, receiver, attempt, part)
                    return
                sent += [each.id for each in part]
                self._note_success(webhook, receiver, len(part))
        finally:
            await self._remove_sent(webhook, receiver)

    async def _remove_sent(self, webhook: Webhook, receiver: _Receiver) -> None:
        """Remove what the receiver has accepted from the outbox."""
        if not receiver.sent:
            return
        try:
            async with asyncio.timeout(LAST_WRITE_SECONDS if self._is_ending else None):
                # A copy: a write that is given up may still be done.
                await self._store.remove_sent(webhook.id, tuple(receiver.sent))
        except TimeoutError:
            # An ending process has no time for a store that hangs; at worst, the messages are sent
            # again.
            if not self._is_ending:
                raise
        receiver.sent.clear()

    def _note_success(self, webhook: Webhook, receiver: _Receiver, count: int) -> None:
        if receiver.failures:
            _log.info("notifications are sent again", extra={"webhook": str(webhook.id)})
        receiver.failures = receiver.refusals = 0
        receiver.failed_at = receiver.down_since = None
        receiver.alone = max(0, receiver.alone - count)

    def _make_message(self, webhook: Webhook, part: Sequence[Notification]) -> Message:
        if webhook.format is WebhookFormat.STANDARD:
            return make_standard(webhook.repository, part[0], self._dashboard_url)
        return make_slack(webhook.repository, part, self._dashboard_url)

    async def _note_failure(
        self,
        webhook: Webhook,
        receiver: _Receiver,
        attempt: Attempt,
        part: Sequence[Notification],
    ) -> None:
        now = self._clock()
        receiver.failures += 1
        receiver.failed_at, receiver.pause = now, _choose_pause(receiver.failures, attempt)
        if receiver.failures == 1:
            _log.warning(
                "notifications wait, the receiver fails",
                extra={
                    "webhook": str(webhook.id),
                    "repository": str(webhook.repository),
                    "reason": attempt.reason,
                },
            )
        if attempt.result is not Result.FAILED:
            receiver.down_since = None
        elif receiver.down_since is None:
            receiver.down_since = now
        if attempt.result is Result.REFUSED:
            given_up = await self._note_refusal(webhook, receiver, part)
        else:
            given_up = await self._give_up_aged(webhook, receiver, part)
        if given_up:
            _log.error(
                "notifications given up",
                extra={
                    "webhook": str(webhook.id),
                    "repository": str(webhook.repository),
                    "number": given_up,
                    "reason": attempt.reason,
                },
            )

    async def _note_refusal(
        self, webhook: Webhook, receiver: _Receiver, part: Sequence[Notification]
    ) -> int:
        """Turn a message that is refused again and again into a dead letter; return the number."""
        if len(part) > 1:
            receiver.alone = len(part)
            return 0
        refused_id = part[0].id
        receiver.refusals = receiver.refusals + 1 if refused_id == receiver.refused_id else 1
        receiver.refused_id = refused_id
        if receiver.refusals < MAX_REFUSALS:
            return 0
        receiver.refusals = 0
        await self._store.give_up(webhook.id, [refused_id])
        return 1

    async def _give_up_aged(
        self, webhook: Webhook, receiver: _Receiver, part: Sequence[Notification]
    ) -> int:
        """Turn notifications that waited for too long into dead letters; return their number.

        Only those that were just tried, unless the receiver is down: it may accept the others.
        """
        now = self._clock()
        until = now - GIVEN_UP_AFTER
        if receiver.down_since is not None and now - receiver.down_since >= DOWN_AFTER:
            return await self._store.give_up_aged(webhook.id, until)
        aged = [each.id for each in part if each.waits_since <= until]
        if aged:
            await self._store.give_up(webhook.id, aged)
        return len(aged)


def _choose_pause(failures: int, attempt: Attempt) -> timedelta:
    """Return the pause after so many failures in a row, the last of which is `attempt`."""
    if attempt.result is Result.REFUSED:
        # The receiver responds. With longer pauses, more messages would arrive than it refuses.
        failures = min(failures, MAX_REFUSALS)
    pause: timedelta = min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)
    # Jitter spreads the retries of receivers that failed together. The first one comes with the
    # next look after this pause, so within twice the time.
    pause = max(pause * random.uniform(0.5, 1.0), FIRST_PAUSE)  # noqa: S311 - no secret
    return max(pause, timedelta(seconds=attempt.retry_after))


def _next_part(
    webhook: Webhook, receiver: _Receiver, waiting: Sequence[Notification]
) -> Sequence[Notification]:
    is_alone = webhook.format is WebhookFormat.STANDARD or receiver.alone
    return waiting[: 1 if is_alone else LINES]
