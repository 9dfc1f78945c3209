"""The repositories of an owner, on any store: their figures, and walks in both orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.listed_repositories import (
    ListedRepository,
    RepositoryKey,
    RepositoryQuery,
    RepositorySort,
    TestCounts,
)
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import QuarantineRequest, QuarantineSource
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.models.trends import DayQuery
from indexing.names import RepositoryName, parse_repository
from indexing.store.elasticsearch import listed_repositories
from indexing.store.interface import Store
from tests.builders import NOON, after, make_event, make_executions, make_run
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.walking import walk_both_ways

P, F = Conclusion.PASSED, Conclusion.FAILED
pytestmark = on_stores_and_one_cache
EVERYTHING = 1_000


async def load(
    store: Store, name: RepositoryName, tests: dict[str, Sequence[Conclusion]], end: float = 0
) -> None:
    """Load one result of each test per day and commit, the newest that many days after noon."""
    await store.ensure_repository(name)
    written = {}
    for test, results in tests.items():
        for days, conclusion in enumerate(reversed(results)):
            run = make_run(f"{test} {end} {days}", commit=f"c{end} {days:02}")
            at = after(days=end - days)
            written[run] = make_executions(run, [(test, conclusion)], at, repository=name)
    await store.write_results(name, written)
    await store.refresh_tests(NOON, repository=name)


async def read(
    store: Store,
    sort: RepositorySort = RepositorySort.NAME,
    *,
    owner: str = "ACME",
    name: str | None = None,
    days: float = 0,
) -> dict[str, ListedRepository]:
    query = RepositoryQuery(owner, after(days=days), name, sort)
    page = await store.list_owned(query, Anchor(), EVERYTHING)
    assert (page.has_previous, page.has_next) == (False, False)
    return {str(row.repository.name): row for row in page.rows}


async def count_one_by_one(store: Store, name: RepositoryName) -> TestCounts:
    """Return the counts by the series of the repository."""
    counted = await store.count_health(DayQuery(name, 0, day_of(NOON) + 1))
    counts: Counter[str] = Counter(counted.before)
    for changes in counted.changes.values():
        counts.update(changes)
    settings = await store.find_repository(name)
    return TestCounts.of(counts, flaky_detection=settings is None or settings.flaky_detection)


async def quarantine(
    store: Store,
    name: RepositoryName,
    test: str,
    branch: str | None = None,
    days: int | None = None,
) -> None:
    request = QuarantineRequest(
        test,
        "x",
        branch,
        QuarantineSource.MANUAL,
        expires_at=None if days is None else after(days=days),
    )
    await store.add_quarantine(name, request, NOON)


WIDGETS, GADGETS, EMPTY = map(parse_repository, ("Acme/Widgets", "acme/gadgets", "acme/a.empty"))
SWINGS: Sequence[Conclusion] = [P, F, P, F, P]


async def load_all(store: Store) -> None:
    await load(store, WIDGETS, {"good": [P], "bad": [F] * 4, "worse": [F] * 5, "swings": SWINGS})
    await load(store, GADGETS, {"swings": SWINGS, "good": [P], "elsewhere": [P]}, end=-3)
    await store.set_repository(GADGETS, RepositoryChange(flaky_detection=False), NOON)
    await store.ensure_repository(EMPTY)
    for foreign in ("acme-b/x", "acm/e", "acme0/x", "bacme/gadgets"):
        await load(store, parse_repository(foreign), {"bad": [F] * 4})
    await store.refresh_tests(NOON)


async def test_each_repository_of_an_owner_has_its_figures(store: Store) -> None:
    await load_all(store)
    topic = make_run("topic", branch="topic")
    results = make_executions(topic, [("of a branch", P)], after(hours=1), repository=EMPTY)
    await store.write_results(EMPTY, {topic: results})
    await store.refresh_tests(NOON)
    await store.write_events(
        [make_event(n, after(days=-n), repository=WIDGETS) for n in range(3)]
        + [make_event(9, after(days=-1), repository=GADGETS)]
    )
    for branch in (None, "main", "release-*"):
        await quarantine(store, WIDGETS, "bad", branch)
    await quarantine(store, WIDGETS, "good", days=2)
    await quarantine(store, GADGETS, "never seen", days=1)
    found = await read(store)
    assert list(found) == ["acme/a.empty", "acme/gadgets", "Acme/Widgets"]
    empty, gadgets, widgets = found.values()
    assert widgets.tests == TestCounts(healthy=1, flaky=1, broken=2)
    assert gadgets.tests == TestCounts(healthy=3)
    # A test that never ran on the default branch has no health there.
    assert empty.tests == TestCounts()
    assert [row.quarantined_tests for row in found.values()] == [0, 1, 2]
    assert [row.last_execution_at for row in found.values()] == [
        after(hours=1),
        after(days=-3),
        NOON,
    ]
    assert [row.last_event_at for row in found.values()] == [None, after(days=-1), NOON]
    assert not gadgets.repository.flaky_detection
    for row in found.values():
        assert row.tests == await count_one_by_one(store, row.repository.name)
    later = await read(store, days=1)
    assert [row.quarantined_tests for row in later.values()] == [0, 0, 2]
    assert await read(store, owner="nobody") == {}
    assert list(await read(store, name="GADGETS")) == ["acme/gadgets"]
    assert list(await read(store, RepositorySort.WORST, name="gadgets")) == ["acme/gadgets"]
    assert await read(store, name="absent") == {}
    assert await read(store, name="x", owner="acme") == {}


async def test_the_counts_follow_every_change_of_health(store: Store) -> None:
    await load_all(store)

    async def counts() -> TestCounts:
        (found,) = (await read(store, name="widgets")).values()
        assert found.tests == await count_one_by_one(store, WIDGETS)
        return found.tests

    # Older results change what came before, newer ones what comes last.
    await load(store, WIDGETS, {"good": [F, F, F, F]}, end=-10)
    assert await counts() == TestCounts(healthy=1, flaky=1, broken=2)
    await load(store, WIDGETS, {"good": [F, F, F, F], "new": [P]}, end=1)
    assert await counts() == TestCounts(healthy=1, flaky=1, broken=3)
    await store.forget_test(WIDGETS, "worse", NOON)
    assert await counts() == TestCounts(healthy=1, flaky=1, broken=2)
    await store.remove_executions(ExecutionSelection(WIDGETS, test_name="bad"), NOON)
    assert await counts() == TestCounts(healthy=1, flaky=1, broken=1)
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="other"), NOON)
    await store.refresh_tests(NOON)
    assert await counts() == TestCounts()
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="main"), NOON)
    await store.rebuild(NOON)
    assert await counts() == TestCounts(healthy=1, flaky=1, broken=1)
    await store.prune(after(days=3), NOON)
    assert await counts() == TestCounts(healthy=1, flaky=1, broken=1)
    (found,) = (await read(store, name="widgets")).values()
    assert found.last_execution_at is None


@pytest.mark.parametrize("sort", RepositorySort)
async def test_a_walk_meets_every_repository_once(
    store: Store, sort: RepositorySort, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Elasticsearch reads them in several pages.
    monkeypatch.setattr(listed_repositories, "_REPOSITORIES_A_PAGE", 4)
    await load_all(store)
    for number in range(3):
        await load(store, RepositoryName("acme", f"Same-{number}"), {"bad": [F] * 4})
    query = RepositoryQuery("acme", NOON, sort=sort)

    names = ["a.empty", "gadgets", "Same-0", "Same-1", "Same-2", "Widgets"]
    worst = ["Widgets", "Same-0", "Same-1", "Same-2", "a.empty", "gadgets"]
    for limit in (1, 2, 6, 7):

        async def read_page(
            anchor: Anchor[RepositoryKey], limit: int = limit
        ) -> Page[ListedRepository]:
            return await store.list_owned(query, anchor, limit)

        rows = await walk_both_ways(read_page, key_of=lambda row: row.key_in(sort))
        found = [row.repository.name.name for row in rows]
        assert found == (names if sort is RepositorySort.NAME else worst)
    # A repository that was never there has a place all the same.
    between = RepositoryKey("same") if sort is RepositorySort.NAME else RepositoryKey("b", 1, 1)
    for backward in (False, True):
        page = await store.list_owned(query, Anchor(between, backward=backward), 9)
        expected = names[:2] if sort is RepositorySort.NAME else worst[:1]
        rest = (names if sort is RepositorySort.NAME else worst)[len(expected) :]
        assert [row.repository.name.name for row in page.rows] == (expected if backward else rest)
        assert page.has_previous is not backward
        assert page.has_next is backward


async def test_the_shown_health_is_that_of_the_tests(store: Store) -> None:
    await load_all(store)
    counts: Counter[str] = Counter()
    for test in ("good", "bad", "worse", "swings"):
        detail = await store.get_test(WIDGETS, derive_test_id(WIDGETS, test))
        assert detail is not None
        counts[detail.health.health_status.value] += 1
    (found,) = (await read(store, name="widgets")).values()
    assert found.tests == TestCounts.of(counts, flaky_detection=True)
