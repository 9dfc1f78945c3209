"""The list of runs, on any store: a row for each run, counted as a plain oracle counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

from indexing.identifiers import derive_arrival_id
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.listed_runs import ListedRun, RunKey, RunQuery
from indexing.models.paging import Anchor, Page
from indexing.models.selections import ExecutionSelection
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import FOREIGN, NOON, PULL, WIDGETS, after, make_executions, make_run
from tests.contracts.walking import walk_both_ways

Loaded = Sequence[tuple[Run, Execution]]


async def load(store: Store, repository: RepositoryName = WIDGETS) -> Loaded:
    """Load runs of two months, some at the same moment, and one that failed as a whole."""
    random = Random(5)
    found: list[tuple[Run, Execution]] = []
    written: dict[Run, list[Execution]] = defaultdict(list)
    await store.ensure_repository(repository)
    for number in range(25):
        run = make_run(
            str(number % 10),
            attempt=1 + number // 20,
            pipeline=random.choice(["ci", "nightly"]),
            job=random.choice(["unit", "é\u202e"]),
            branch=random.choice(["main", "topic"]),
            commit=f"c{number % 4}",
            pull=random.choice([None, PULL]),
            job_url=random.choice([None, "https://ci.example/7"]),
        )
        results = [
            (f"t{test}", random.choice(list(Conclusion))) for test in range(random.randrange(1, 4))
        ]
        moment = NOON - timedelta(days=random.randrange(60))
        executions = make_executions(run, results, moment, repository=repository)
        written[run] += executions
        found += [(run, each) for each in executions]
    down = make_run("down")
    executions = make_executions(
        down, [(f"t{n}", Conclusion.FAILED) for n in range(30)], repository=repository
    )
    written[down] += executions
    await store.write_results(repository, written)
    await store.refresh_tests(NOON, None, repository)
    return [*found, *((down, each) for each in executions)]


def count(loaded: Loaded) -> list[ListedRun]:
    """Return the rows of these executions, newest first."""
    groups: dict[Run, dict[bytes, Execution]] = defaultdict(dict)
    for run, execution in loaded:
        groups[run][execution.id] = execution
    rows = []
    for run, executions in groups.items():
        counts = {
            conclusion.value: sum(each.conclusion is conclusion for each in executions.values())
            for conclusion in Conclusion
        }
        newest = max(each.finished_at for each in executions.values())
        shown = make_run(
            run.run_id,
            attempt=run.attempt,
            pipeline=run.pipeline_name,
            job=run.job_name,
            branch=run.branch,
            commit=run.commit,
            pull=None,
            job_url=run.job_url,
        )
        rows.append(
            ListedRun(
                key=RunKey(newest, derive_arrival_id(WIDGETS, run)),
                run=Run(**{**_members(shown), "pull_number": run.pull_number}),
                is_infrastructure_failure=run.run_id == "down",
                **counts,
            )
        )
    return sorted(rows, key=key_of, reverse=True)


def _members(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__dataclass_fields__}


def key_of(row: ListedRun) -> RunKey:
    return row.key


async def walk(store: Store, query: RunQuery, limit: int = 4) -> list[ListedRun]:
    async def read(anchor: Anchor[RunKey]) -> Page[ListedRun]:
        return await store.list_runs(query, anchor, limit)

    return await walk_both_ways(read)


FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "commit": {"commits": ("c1",)},
    "commits": {"commits": ("c1", "c2", "never")},
    "branch": {"branches": ("topic",)},
    "branches": {"branches": ("topic", "main")},
    "unknown branch": {"branches": ("never",)},
    "pull request": {"pull_numbers": (17,)},
    "pull requests": {"pull_numbers": (17, 18)},
    "pipeline": {"pipelines": ("nightly",)},
    "job": {"jobs": ("é\u202e",)},
    "everything": {"commits": ("c1",), "branches": ("main",), "jobs": ("unit",)},
}


async def test_pages_hold_what_the_filters_ask_for_newest_first(store: Store) -> None:
    loaded = await load(store)
    await load(store, FOREIGN)
    for name, chosen in FILTERS.items():
        query = RunQuery(WIDGETS, **chosen)
        expected = [
            row
            for row in count(loaded)
            if (not query.commits or row.run.commit in query.commits)
            and (not query.branches or row.run.branch in query.branches)
            and (not query.pull_numbers or row.run.pull_number in query.pull_numbers)
            and (not query.pipelines or row.run.pipeline_name in query.pipelines)
            and (not query.jobs or row.run.job_name in query.jobs)
        ]
        assert await walk(store, query) == expected, name


async def test_loading_again_changes_nothing_and_more_results_add_up(store: Store) -> None:
    loaded = await load(store)
    await load(store)
    assert await walk(store, RunQuery(WIDGETS), 50) == count(loaded)
    run = loaded[0][0]
    more = make_executions(run, [("later", Conclusion.SKIPPED)], after(hours=2))
    await store.write_results(WIDGETS, {run: more})
    await store.refresh_tests(NOON)
    expected = count([*loaded, *((run, each) for each in more)])
    assert await walk(store, RunQuery(WIDGETS), 50) == expected


async def test_what_is_removed_is_not_counted(store: Store) -> None:
    loaded = await load(store)
    await store.remove_executions(ExecutionSelection(WIDGETS, run_id="3"), after(hours=1))
    await store.remove_executions(ExecutionSelection(WIDGETS, test_name="t0"), after(hours=1))
    left = [
        (run, execution)
        for run, execution in loaded
        if run.run_id != "3" and execution.test_name != "t0"
    ]
    assert await walk(store, RunQuery(WIDGETS), 50) == count(left)


async def test_what_retention_dropped_is_not_counted(store: Store) -> None:
    loaded = await load(store)
    run = loaded[0][0]
    straddling = make_executions(run, [("later", Conclusion.PASSED)], after(hours=-1))
    await store.write_results(WIDGETS, {run: straddling})
    await store.refresh_tests(NOON)
    await store.prune(NOON - timedelta(days=30), after(hours=1))
    everything = [*loaded, *((run, each) for each in straddling)]
    left = [pair for pair in everything if pair[1].finished_at >= NOON - timedelta(days=30)]
    assert await walk(store, RunQuery(WIDGETS), 50) == count(left)


async def test_a_page_beside_a_run_that_has_moved_says_what_lies_behind_it(store: Store) -> None:
    """Otherwise it would have a link to an empty page."""
    await store.ensure_repository(WIDGETS)
    runs = [make_run(str(number)) for number in range(3)]
    for number, run in enumerate(runs):
        executions = make_executions(run, [("t", Conclusion.PASSED)], after(hours=number))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    query = RunQuery(WIDGETS)
    oldest = (await store.list_runs(query, Anchor(), 10)).rows[-1].key
    more = make_executions(runs[0], [("u", Conclusion.PASSED)], after(hours=9))
    await store.write_results(WIDGETS, {runs[0]: more})
    await store.refresh_tests(NOON)
    page = await store.list_runs(query, Anchor(oldest, backward=True), 1)
    assert [row.run.run_id for row in page.rows] == ["1"]
    assert (page.has_previous, page.has_next) == (True, False)


async def test_an_unknown_repository_has_no_runs(store: Store) -> None:
    await load(store)
    assert await walk(store, RunQuery(FOREIGN)) == []
