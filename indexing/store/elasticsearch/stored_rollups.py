"""Reads the roll-ups in the document of a test, to derive something from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from indexing.health.rollup_text import read_rollup
from indexing.health.rollups import Job, Rollup
from indexing.health.rules import build_rollups
from indexing.models.repositories import Repository
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived import observations
from indexing.store.elasticsearch.tests import JobRollup, test_of

T = TypeVar("T")

# More roll-ups than this are parsed in a thread, because that would block the event loop.
_QUICK_JOBS: Final = 50


async def derive_from_rollups(
    cluster: Cluster,
    repository: Repository,
    source: Mapping[str, Any],
    derive: Callable[[dict[Job, Rollup]], T],
) -> T:
    """Return the result of `derive` for the roll-ups of a test on the default branch.

    `source` is the document of the test. Many roll-ups are parsed in a thread, and `derive` runs
    there too. If an earlier release stored the test, without roll-ups, they are computed from all
    executions.
    """
    if len(source.get("rollups") or ()) <= _QUICK_JOBS:
        test = test_of(source)
    else:
        test = await asyncio.to_thread(test_of, source)
    branch = repository.default_branch
    if test.rollups is None:
        return derive(await _compute(cluster, routing_of(repository.name), branch, source))
    stored = test.rollups if test.branch == branch else ()
    if len(stored) <= _QUICK_JOBS:
        return derive(_read(stored))
    return await asyncio.to_thread(lambda: derive(_read(stored)))


async def _compute(
    cluster: Cluster, routing: str, branch: str, source: Mapping[str, Any]
) -> dict[Job, Rollup]:
    test_id = source["test_id"]
    retention = await cluster.control.read_retention()
    observed = observations.ObservedBranch(routing, retention, branch)
    seen = await observations.read_all(cluster, observed, [test_id])
    # Thousands of executions would block the event loop.
    return await asyncio.to_thread(build_rollups, [each.observation for each in seen[test_id]])


def _read(stored: tuple[JobRollup, ...]) -> dict[Job, Rollup]:
    found = {each.job: read_rollup(each.text.encode()) for each in stored}
    return {job: rollup for job, rollup in found.items() if rollup is not None}
