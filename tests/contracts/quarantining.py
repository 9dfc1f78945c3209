"""Loads results of one test, and reads and makes quarantines of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.quarantines import Quarantine, QuarantineQuery, QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED

# When decisions are made, unless a test says otherwise: after every result that it loads.
LATER = after(days=1)
MUCH_LATER = after(days=90)


async def set_up(store: Store, now: datetime = NOON, **change: Any) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(**change), now)
    await store.refresh_tests(now)


async def load(
    store: Store,
    letters: str,
    *,
    at: float = 0,
    now: datetime = LATER,
    commit: str | None = None,
    **about: Any,
) -> None:
    """Load one run of the test `t` per letter, an hour apart, each on its own commit."""
    results = {}
    for hour, letter in enumerate(letters):
        sha = commit or f"c{at + hour}"
        run = make_run(f"{sha} {at + hour}", commit=sha, **about)
        conclusion = {"P": PASSED, "F": FAILED, "S": SKIPPED}[letter]
        results[run] = make_executions(run, [("t", conclusion)], after(hours=at + hour))
    await store.write_results(WIDGETS, results)
    await store.refresh_tests(now)


async def listed(store: Store, now: datetime = MUCH_LATER) -> list[Quarantine]:
    query = QuarantineQuery(WIDGETS, now)
    return list((await store.list_quarantines(query, Anchor(), None)).rows)


async def add(store: Store, test_name: str = "t", at: datetime = NOON, **rest: Any) -> Quarantine:
    request = QuarantineRequest(test_name, **({"reason": "flaps"} | rest))
    quarantine, _ = await store.add_quarantine(WIDGETS, request, at)
    return quarantine
