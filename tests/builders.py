"""Builders of test values, with defaults for everything that a test does not care about."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from indexing.identifiers import derive_identity_id, derive_junit_execution_id
from indexing.models.events import EventKey, Outcome, StoredEvent
from indexing.models.executions import Conclusion, Execution, PullRequest, Run
from indexing.models.notifications import Webhook, WebhookFormat
from indexing.names import RepositoryName
from indexing.store.interface import Store
from indexing.timestamps import format_timestamp

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)
WIDGETS = RepositoryName("acme", "widgets")
GADGETS = RepositoryName("acme", "gadgets")
FOREIGN = RepositoryName("umbrella", "widgets")
PULL = PullRequest(id=900, number=17, title="Mend the hinge", user_id=4, user_login="mona")


def after(**duration: float) -> datetime:
    """That much time after noon."""
    return NOON + timedelta(**duration)


def make_event(
    number: int,
    at: datetime = NOON,
    *,
    repository: RepositoryName = WIDGETS,
    event_type: str = "action.rebase",
    pull_request: int | None = None,
    base_ref: str | None = None,
    trigger: str = "rule",
    outcome: Outcome = Outcome.NEUTRAL,
    metadata: dict[str, Any] | None = None,
) -> StoredEvent:
    body = {
        "id": number,
        "received_at": format_timestamp(at),
        "trigger": trigger,
        "repository": str(repository),
        "pull_request": pull_request,
        "base_ref": base_ref,
        "type": event_type,
        "metadata": metadata or {},
    }
    return StoredEvent(
        repository=repository,
        key=EventKey(at, number),
        type=event_type,
        pull_request=pull_request,
        base_ref=base_ref,
        trigger=trigger,
        outcome=outcome,
        body=orjson.dumps(body),
    )


def make_run(
    run_id: str = "1",
    *,
    attempt: int = 1,
    pipeline: str = "ci",
    job: str = "unit",
    branch: str = "main",
    commit: str = "c0ffee",
    pull: PullRequest | None = None,
    job_url: str | None = None,
) -> Run:
    return Run(
        run_id=run_id,
        attempt=attempt,
        pipeline_name=pipeline,
        job_name=job,
        branch=branch,
        commit=commit,
        pull_number=pull.number if pull else None,
        pull=pull,
        job_url=job_url,
    )


def make_executions(
    run: Run,
    results: Iterable[tuple[str, Conclusion]],
    at: datetime = NOON,
    *,
    repository: RepositoryName = WIDGETS,
    **rest: Any,
) -> list[Execution]:
    """One execution for each (test name, conclusion), as from one report."""
    results = list(results)
    digest = hashlib.sha256(repr((run, results, at)).encode()).digest()
    return [
        Execution(
            id=derive_junit_execution_id(
                derive_identity_id(repository, name, run.pipeline_name, run.job_name),
                run.run_id,
                run.attempt,
                digest,
                ordinal,
            ),
            test_name=name,
            conclusion=conclusion,
            finished_at=at,
            **rest,
        )
        for ordinal, (name, conclusion) in enumerate(results)
    ]


async def load_names(
    store: Store,
    names: Sequence[str],
    run: Run | None = None,
    *,
    repository: RepositoryName = WIDGETS,
    at: datetime = NOON,
) -> None:
    """Load one passing result for each of the tests."""
    run = run or make_run()
    await store.ensure_repository(repository)
    executions = make_executions(
        run, [(name, Conclusion.PASSED) for name in names], at, repository=repository
    )
    await store.write_results(repository, {run: executions})
    await store.refresh_tests(NOON)


async def load_history(
    store: Store,
    test: str,
    job: str,
    results: Sequence[Conclusion],
    *,
    end: float = 0,
    duration: float | None = None,
) -> None:
    """Load one result for each day and commit; the newest is that many days after noon."""
    await store.ensure_repository(WIDGETS)
    written = {}
    for days, conclusion in enumerate(reversed(results)):
        run = make_run(f"{job} {days}", job=job, commit=f"c{days:02}")
        written[run] = make_executions(
            run, [(test, conclusion)], after(days=end - days), duration=duration
        )
    await store.write_results(WIDGETS, written)


def make_webhook(
    repository: RepositoryName = WIDGETS,
    at: datetime = NOON,
    style: WebhookFormat = WebhookFormat.STANDARD,
) -> Webhook:
    secret = b"s" * 24 if style is WebhookFormat.STANDARD else b""
    return Webhook(uuid.uuid4(), repository, style, "https://hooks.example/a", secret, at)
