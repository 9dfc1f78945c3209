"""Notifies webhooks of changes of health, and records in the tests what they were notified of.

The order of writes is: the test's document, with its new health and a record of the pending
notification; then the notification; then the document again, with the record after it. If the
process is killed in between, the test's dirty marker causes another refresh, which finds the
pending notification and writes it with the same id before anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from indexing.models.notifications import Notification
from indexing.notifications.records import noticed_to_record
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.results import Result
from indexing.store.elasticsearch.outbox import enqueue
from indexing.store.elasticsearch.tests import test_of


async def finish(cluster: Cluster, results: Sequence[Result]) -> None:
    """Write the notifications that were pending before, if another refresh was killed."""
    await _enqueue(cluster, [(each, each.unfinished) for each in results])


async def notify(cluster: Cluster, results: Sequence[Result]) -> None:
    """Write the notifications for tests whose documents were just stored, and record them."""
    due = [
        (result, notification)
        for result in results
        if (notification := result.notification) is not None
    ]
    if not due:
        return
    await _enqueue(cluster, due)
    routing = due[0][0].rules.observed.routing
    stored = await cluster.connection.get_many(
        [Place(cluster.layout.tests, result.test.test_id, routing) for result, _ in due],
        timeouts=WRITING,
    )
    operations = []
    for (result, _), document in zip(due, stored, strict=True):
        noticed = result.after.noticed
        # If another process has written the test since, that process has finished the notification.
        if document is None or noticed is None or test_of(document.source).noticed != noticed:
            continue
        cluster.written_tests.forget(document.id)
        operations.append(
            Operation(
                "index",
                cluster.layout.tests,
                document.id,
                routing,
                {**document.source, "noticed": noticed_to_record(noticed.after_pending())},
                document.version.parameters,
            )
        )
    await bulk.send(cluster.connection, operations, visible=False)


async def _enqueue(
    cluster: Cluster, notifications: Sequence[tuple[Result, Notification | None]]
) -> None:
    due = [
        (subscription, notification)
        for result, notification in notifications
        if notification is not None and (subscription := result.rules.subscription) is not None
    ]
    if due:
        await enqueue(cluster, due)
