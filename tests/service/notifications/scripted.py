"""A receiver with scripted responses, and what makes the notifications that it gets."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson

from indexing.health.thresholds import BROKEN_STREAK
from indexing.models.executions import Conclusion
from indexing.models.notifications import Webhook, WebhookFormat
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.notifications.delivery import Attempt, Result
from service.notifications.messages import Message
from service.notifications.sender import LOOK_SECONDS, NotificationSender
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.service.front_door import Clock
from tests.service.notifications.receivers import SECRET

LOOK = timedelta(seconds=LOOK_SECONDS)


@dataclass
class Scripted:
    """A receiver with scripted responses, which records the messages that it accepts."""

    result: Result = Result.SENT
    # Messages that contain this text are refused.
    refused: str = ""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[Message] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)

    async def send(self, _: Webhook, message: Message, __: datetime) -> Attempt:
        self.requests.append(message)
        self.arrived.set()
        result = self.result
        if self.refused and self.refused in message.body.decode():
            result = Result.REFUSED
        if result is Result.SENT:
            self.taken.append(message)
        return Attempt(result, "scripted")

    @property
    def names(self) -> list[str]:
        return [orjson.loads(each.body)["data"]["test_name"] for each in self.taken]


@dataclass
class Slow(Scripted):
    """Receivers of which one does not respond, until `released` is set."""

    slow: Webhook | None = None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    receivers: list[uuid.UUID] = field(default_factory=list)

    async def send(self, webhook: Webhook, message: Message, now: datetime) -> Attempt:
        self.receivers.append(webhook.id)
        if webhook == self.slow:
            await self.released.wait()
        return await super().send(webhook, message, now)


async def add_webhook(
    store: Store,
    style: WebhookFormat = WebhookFormat.STANDARD,
    url: str = "https://a.example/",
    repository: RepositoryName = WIDGETS,
) -> Webhook:
    secret = SECRET if style is WebhookFormat.STANDARD else b""
    webhook = Webhook(uuid.uuid4(), repository, style, url, secret, NOON)
    await store.add_webhook(webhook)
    return webhook


async def break_tests(
    store: Store,
    names: Sequence[str],
    at: datetime = NOON,
    repository: RepositoryName = WIDGETS,
) -> None:
    """Make these tests broken, among others that pass: else it would be the job that failed."""
    results = [(name, Conclusion.FAILED) for name in names]
    results += [(f"sound {number}", Conclusion.PASSED) for number in range(len(names) // 2 + 1)]
    runs = {
        run: make_executions(run, results, at)
        for run in (make_run(f"{at}{n}", commit=f"{at}{n}") for n in range(BROKEN_STREAK))
    }
    await store.write_results(repository, runs)
    await store.refresh_tests(at, repository=repository)


async def pass_time(
    sender: NotificationSender, clock: Clock, until: datetime, step: timedelta = LOOK
) -> None:
    while clock.now < until:
        clock.now += step
        await sender.look()
