"""Verdicts of tests since a day: all pipelines and jobs, on the default branch."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.repositories import RepositoryChange
from indexing.models.verdict_counts import VerdictCounts, VerdictsSince
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import FOREIGN, NOON, WIDGETS, after, make_executions, make_run

TODAY = day_of(NOON)
P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


async def load(
    store: Store,
    test: str,
    results: Iterable[tuple[float, str, Conclusion]],
    *,
    job: str = "unit",
    branch: str = "main",
) -> None:
    """Each result has the days after noon and its commit."""
    await store.ensure_repository(WIDGETS)
    written = {}
    for days, commit, conclusion in results:
        run = make_run(f"{job} {branch} {days}", job=job, branch=branch, commit=commit)
        written[run] = make_executions(run, [(test, conclusion)], after(days=days))
    await store.write_results(WIDGETS, written)


async def count(
    store: Store, test: str, days: float, repository: RepositoryName = WIDGETS
) -> tuple[int, ...]:
    since = VerdictsSince(derive_test_id(WIDGETS, test), TODAY + int(days))
    return tuple((await store.count_verdicts(repository, [since]))[since])


async def test_verdicts_are_counted_from_the_day_on_over_all_jobs(store: Store) -> None:
    await load(store, "hinge", [(-3, "a", F), (-2, "b", F), (-1, "c", P), (0, "d", P)])
    await load(store, "hinge", [(-2, "b", P), (-1, "c", S), (0, "d", F), (0.1, "d", P)], job="win")
    await load(store, "hinge", [(0, "e", F)], branch="topic")
    await load(store, "latch", [(0, "d", F)])
    await store.refresh_tests(NOON)
    assert await count(store, "hinge", -3) == (3, 2, 1)
    assert await count(store, "hinge", -1) == (2, 0, 1)
    assert await count(store, "hinge", 0) == (1, 0, 1)
    assert await count(store, "hinge", 1) == (0, 0, 0)


async def test_one_call_counts_several_tests_each_since_several_days(store: Store) -> None:
    tests = [f"t{number:02}" for number in range(25)]
    for test in tests:
        await load(store, test, [(-1, "a", F), (0, "b", P)], job=test)
    await store.refresh_tests(NOON)
    ids = {test: derive_test_id(WIDGETS, test) for test in reversed(tests)}
    asked = [VerdictsSince(ids[test], TODAY + day) for day in (0, -1) for test in ids]
    unknown = VerdictsSince(uuid.UUID(int=0), TODAY - 1)
    counts = await store.count_verdicts(WIDGETS, [*asked, unknown])
    assert counts == {
        **{since: VerdictCounts(1, int(since.first_day < TODAY), 0) for since in asked},
        unknown: VerdictCounts(),
    }
    assert await store.count_verdicts(WIDGETS, []) == {}


async def test_a_commit_that_ran_before_and_after_counts_by_what_ran_after(store: Store) -> None:
    await load(store, "hinge", [(-2, "same", F), (-1, "same", P), (0, "same", P)])
    await store.refresh_tests(NOON)
    assert await count(store, "hinge", -2) == (0, 0, 1)
    assert await count(store, "hinge", -1) == (1, 0, 0)


async def test_what_began_before_the_window_of_the_test_is_not_counted(store: Store) -> None:
    await load(store, "hinge", [(-30, "a", F), (-29, "b", F), (0, "c", P)])
    await load(store, "hinge", [(-40, "a", F)], job="silent")
    await store.refresh_tests(NOON)
    assert await count(store, "hinge", -60) == (1, 1, 0)


async def test_a_foreign_test_and_another_default_branch_have_no_verdicts(store: Store) -> None:
    await load(store, "hinge", [(0, "a", P)])
    await store.refresh_tests(NOON)
    await store.ensure_repository(FOREIGN)
    assert await count(store, "hinge", -1, FOREIGN) == (0, 0, 0)
    assert await count(store, "hinge", -1, RepositoryName("no", "one")) == (0, 0, 0)
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="next"), NOON)
    assert await count(store, "hinge", -1) == (0, 0, 0)
