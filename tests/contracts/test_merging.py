"""Derived data that loads update incrementally equals a full recomputation, in any store."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import HealthStatus, TestQuery
from indexing.models.trends import DayQuery
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import NOON, after
from tests.load_steps import (
    CHANGES,
    FAILED,
    HISTORIES,
    OTHERS,
    PASSED,
    Change,
    Report,
    change,
    load,
    split,
)

_numbers = itertools.count()
LATER = after(days=1)
TODAY = day_of(LATER)


async def state_of(store: Store, repository: RepositoryName) -> list[Any]:
    """Return everything that clients can see of the tests of a repository."""
    details = [
        await store.get_test(repository, derive_test_id(repository, name))
        for name in ("t", OTHERS[0])
    ]
    page = await store.search_tests(TestQuery(repository, ("*",)), Anchor(), 100)
    quarantines = await store.list_quarantines(QuarantineQuery(repository, LATER), Anchor(), None)
    return [details, page.rows, quarantines.rows, *await _read_trends(store, repository)]


async def _read_trends(store: Store, repository: RepositoryName) -> list[Any]:
    days = DayQuery(repository, TODAY - 50, TODAY)
    return [
        await store.sum_days(days),
        await store.count_flaky_verdicts(days),
        await store.count_health(days),
    ]


async def run_steps(
    store: Store, repository: RepositoryName, steps: list[Report | Change], order: random.Random
) -> None:
    await store.set_repository(repository, RepositoryChange(auto_quarantine=True), NOON)
    for number, step in enumerate(steps):
        if isinstance(step, Report):
            await load(store, repository, step, number=sum(repr(step).encode()) % 60)
        elif step.what == "repeat":
            for other in steps[:number]:
                if isinstance(other, Report):
                    await load(store, repository, other, number=sum(repr(other).encode()) % 60)
        else:
            await change(store, repository, step, LATER)
        if order.random() < 0.8:
            await store.refresh_tests(LATER, None, repository)
    await store.refresh_tests(LATER, None, repository)


@pytest.mark.slow
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    HISTORIES,
    st.lists(st.tuples(st.integers(0, 50), CHANGES), max_size=3),
    st.booleans(),
    st.randoms(use_true_random=False),
)
async def test_what_is_merged_equals_a_full_recomputation(
    store: Store,
    reports: list[Report],
    changes: list[tuple[int, Change]],
    by_time: bool,
    order: random.Random,
) -> None:
    repository = RepositoryName("merged", f"example-{next(_numbers)}")
    if by_time:
        reports = sorted(reports, key=lambda report: report.hours)
    await run_steps(store, repository, split(reports, changes), order)
    merged = await state_of(store, repository)
    await store.rebuild(LATER)
    assert merged == await state_of(store, repository)


async def test_a_rerun_of_a_commit_that_is_no_longer_kept_is_seen(store: Store) -> None:
    repository = RepositoryName("merged", "rerun")
    await store.ensure_repository(repository)
    for number in range(30):
        report = Report(-40 + number, f"c{number}", PASSED)
        await load(store, repository, report, number=0)
        await store.refresh_tests(LATER)
    await load(store, repository, Report(-1, "c0", FAILED), number=30)
    await load(store, repository, Report(-1, "new", PASSED), number=31)
    await store.refresh_tests(LATER)
    merged = await state_of(store, repository)
    assert merged[0][0].health.flakiness_ratio == 1 / 31
    assert [row.key.executions_count for row in merged[1]] == [32]
    await store.rebuild(LATER)
    assert merged == await state_of(store, repository)


async def test_late_results_from_before_the_retention_count_as_in_a_recomputation(
    store: Store,
) -> None:
    repository = RepositoryName("merged", "late")
    await store.ensure_repository(repository)
    await load(store, repository, Report(-400, "old", PASSED), number=0)
    await load(store, repository, Report(-39, "new", PASSED), number=0)
    await store.refresh_tests(LATER)
    await store.prune(after(hours=-100), LATER)
    await load(store, repository, Report(-200, "late", FAILED, job="slow"), number=0)
    await store.refresh_tests(LATER)
    merged = await state_of(store, repository)
    assert merged[0][0].health.health_status is HealthStatus.BROKEN
    await store.rebuild(LATER)
    assert merged == await state_of(store, repository)


async def test_loading_again_in_parts_counts_nothing_twice(store: Store) -> None:
    repository = RepositoryName("merged", "again")
    await store.ensure_repository(repository)
    for number in range(6):
        for _ in range(2):
            await load(store, repository, Report(number - 6, f"c{number}", PASSED), number=0)
        if number % 2:
            await store.refresh_tests(LATER)
    (row,) = (await state_of(store, repository))[1]
    assert row.key.executions_count == 6
