"""The failures of one test on any store: grouped as a plain oracle groups them, page by page."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from random import Random

from indexing.failures.fingerprint import identify_failure
from indexing.failures.traces import pack_trace
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.failures import Failure, FailureKey, FailureQuery
from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import FOREIGN, NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.walking import walk_both_ways

TEST_ID = derive_test_id(WIDGETS, "hinge")
MESSAGES = (
    *("it is stuck after {} s", "no widget {}", "expected {}, got 7"),
    *("a {}: <b>=1+1\x1b[31m", "é{}\u202e", None),
)
TYPES = ("Stuck", "Loose", None)
Loaded = Sequence[tuple[Run, Execution]]


async def load(store: Store, repository: RepositoryName = WIDGETS) -> Loaded:
    """Load failures of two months in two jobs and branches, some of them at the same moment."""
    random = Random(3)
    found = []
    results = {}
    await store.ensure_repository(repository)
    for number in range(80):
        run = make_run(
            str(number), job=random.choice("ab"), branch=random.choice(["main", "topic"])
        )
        message = random.choice(MESSAGES)
        executions = make_executions(
            run,
            [
                ("hinge", random.choice([Conclusion.FAILED, Conclusion.PASSED])),
                ("lid", Conclusion.FAILED),
            ],
            NOON - timedelta(days=random.randrange(60)),
            repository=repository,
            failure_type=random.choice(TYPES),
            failure_message=None if message is None else message.format(random.randrange(10**6)),
            failure_trace=random.choice([None, pack_trace(f"at hinge\n{number}\x1b[0m")]),
        )
        executions = [each for each in executions if each.test_name == "hinge"]
        results[run] = executions
        found += [(run, each) for each in executions]
    await store.write_results(repository, results)
    await store.refresh_tests(NOON, None, repository)
    return found


def group(loaded: Loaded, branches: Sequence[str] = ()) -> dict[uuid.UUID, Loaded]:
    """Group the failed executions by type and message, newest first."""
    groups: dict[uuid.UUID, list[tuple[Run, Execution]]] = defaultdict(list)
    for run, execution in loaded:
        failure_id = identify_failure(TEST_ID, execution)
        if failure_id is not None and (not branches or run.branch in branches):
            groups[failure_id].append((run, execution))
    for each in groups.values():
        each.sort(key=lambda pair: (pair[1].finished_at, pair[1].id), reverse=True)
    return {**groups}


def failure_of(failure_id: uuid.UUID, events: Loaded) -> Failure:
    newest = events[0][1]
    return Failure(
        key=FailureKey(newest.finished_at, failure_id),
        exception_type=newest.failure_type,
        exception_message=newest.failure_message,
        failure_count=len(events),
        first_failure_at=events[-1][1].finished_at,
    )


def key_of(failure: Failure) -> FailureKey:
    return failure.key


async def walk(store: Store, query: FailureQuery, limit: int = 4) -> list[Failure]:
    async def read(anchor: Anchor[FailureKey]) -> Page[Failure]:
        page = await store.list_failures(query, anchor, limit)
        assert page is not None
        return page

    return await walk_both_ways(read)


async def test_failures_that_say_the_same_are_one_latest_first(store: Store) -> None:
    loaded = await load(store)
    await load(store, FOREIGN)
    for branches in ((), ("topic",), ("main", "topic"), ("never",)):
        expected = [failure_of(*pair) for pair in group(loaded, branches).items()]
        expected.sort(key=key_of, reverse=True)
        assert await walk(store, FailureQuery(WIDGETS, TEST_ID, branches)) == expected


async def test_a_failure_has_its_newest_events_with_their_traces(store: Store) -> None:
    loaded = await load(store)
    for failure_id, events in group(loaded).items():
        found = await store.get_failure(FailureQuery(WIDGETS, TEST_ID), failure_id, 3)
        assert found is not None
        assert found.failure == failure_of(failure_id, events)
        told = [
            (each.execution.key.id, each.execution.run_id, each.exception_message, each.trace)
            for each in found.latest_events
        ]
        assert told == [
            (execution.id, run.run_id, execution.failure_message, execution.failure_trace)
            for run, execution in events[:3]
        ]


async def test_loading_the_same_twice_changes_no_count(store: Store) -> None:
    await load(store)
    before = await walk(store, FailureQuery(WIDGETS, TEST_ID), 50)
    await load(store)
    assert await walk(store, FailureQuery(WIDGETS, TEST_ID), 50) == before


async def test_what_belongs_to_another_test_or_repository_is_not_found(store: Store) -> None:
    loaded = await load(store)
    await load(store, FOREIGN)
    failure_id = next(iter(group(loaded)))
    lid = derive_test_id(WIDGETS, "lid")
    for query in (
        FailureQuery(FOREIGN, TEST_ID),
        FailureQuery(WIDGETS, derive_test_id(FOREIGN, "hinge")),
        FailureQuery(WIDGETS, lid),
    ):
        assert await store.list_failures(query, Anchor(), 10) is None
        assert await store.get_failure(query, failure_id, 10) is None
    own = FailureQuery(WIDGETS, TEST_ID)
    assert await store.get_failure(own, uuid.uuid4(), 10) is None


async def test_a_removed_run_takes_its_failures_with_it(store: Store) -> None:
    loaded = await load(store)
    await store.prune(NOON - timedelta(days=30), after(hours=1))
    left = [pair for pair in loaded if pair[1].finished_at >= NOON - timedelta(days=30)]
    expected = [failure_of(*pair) for pair in group(left).items()]
    expected.sort(key=key_of, reverse=True)
    assert await walk(store, FailureQuery(WIDGETS, TEST_ID)) == expected
