"""Groups of tests by pipeline, job, directory and owner, on any store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.models.executions import Conclusion
from indexing.models.groups import Grouping
from indexing.models.groups import TestGroup as Group
from indexing.models.paging import Anchor
from indexing.models.tests import HealthStatus, TestQuery
from indexing.names import RepositoryName
from indexing.store.elasticsearch import distinct_tests, text_groups
from indexing.store.elasticsearch import groups as elasticsearch_groups
from indexing.store.interface import Store
from indexing.store.sqlite import groups as sqlite_groups
from tests.builders import (
    FOREIGN,
    NOON,
    WIDGETS,
    after,
    load_history,
    load_names,
    make_executions,
    make_run,
)
from tests.contracts.conftest import on_stores_and_one_cache

P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
GROUPINGS = (Grouping.PIPELINE, Grouping.JOB, Grouping.DIRECTORY)
pytestmark = on_stores_and_one_cache


async def load_files(store: Store, files: dict[str, str | None]) -> None:
    await store.ensure_repository(WIDGETS)
    for number, (name, path) in enumerate(files.items()):
        run = make_run(str(number))
        made = make_executions(run, [(name, P)], filepath=path)
        await store.write_results(WIDGETS, {run: made})
    await store.refresh_tests(NOON)


async def test_a_test_counts_once_a_group_with_its_worst_health_there(store: Store) -> None:
    await load_history(store, "hinge", "linux", [P, P, F, P])
    await load_history(store, "hinge", "windows", [P, F, F, F])
    await load_history(store, "hinge", "mac", [P, F, P, F, P])
    await load_history(store, "hinge", "silent", [F, F], end=-20)
    await load_history(store, "hinge", "gone", [P, F], end=-40)
    await load_history(store, "knob", "linux", [P, P])
    await load_history(store, "lid", "never", [S])
    other = make_run("other", pipeline="nightly", job="linux")
    await store.write_results(WIDGETS, {other: make_executions(other, [("hinge", F)])})
    topic = make_run("topic", branch="topic", job="topic")
    await store.write_results(WIDGETS, {topic: make_executions(topic, [("elsewhere", F)])})
    await load_names(store, ["foreign"], repository=FOREIGN)
    await store.refresh_tests(NOON)
    assert await store.group_tests(WIDGETS, Grouping.JOB, 10) == [
        Group("windows", 1, 0, 0, 1, 0, 4, 3),
        # The failure of the other pipeline makes the test broken in this job.
        Group("linux", 2, 1, 0, 1, 0, 7, 2),
        Group("mac", 1, 0, 1, 0, 0, 5, 2),
        Group("silent", 1, 0, 0, 0, 1, 2, 2),
        Group("gone", 1, 0, 0, 0, 1, 0, 0),
        Group("never", 1, 0, 0, 0, 1, 1, 0),
    ]
    assert await store.group_tests(WIDGETS, Grouping.PIPELINE, 10) == [
        Group("ci", 3, 1, 0, 1, 1, 18, 8),
        Group("nightly", 1, 0, 0, 1, 0, 1, 1),
    ]
    assert await store.group_tests(WIDGETS, Grouping.DIRECTORY, 10) == [
        Group(None, 3, 1, 0, 1, 1, 19, 9)
    ]
    assert [g.value for g in await store.group_tests(WIDGETS, Grouping.JOB, 2)] == [
        "windows",
        "linux",
    ]
    assert await store.group_tests(RepositoryName("no", "such"), Grouping.JOB, 10) == []
    assert await store.group_tests(RepositoryName("no", "such"), Grouping.DIRECTORY, 10) == []


async def test_a_directory_is_that_of_the_file_or_else_of_the_name(store: Store) -> None:
    files = {
        "a": "tests/unit/a.py",
        "b": "tests/unit/b.py",
        "c": "tests/c.py",
        "d": "d.py",
        "e": "/e.py",
        "f": "tests\\unit\\f.cs",
        "g": None,
        "h": "[\ufffd?*]/h.py",
        "src/app/i.test.ts > adds": None,
        "src/app/i.test.ts > subtracts [1/2]": None,
        "/j/k": None,
        "GET /v1": None,
        "/l": None,
        "m//n": None,
    }
    await load_files(store, files)
    found = await store.group_tests(WIDGETS, Grouping.DIRECTORY, 10)
    assert {group.value: group.tests for group in found} == {
        "tests/unit": 2,
        "tests": 1,
        ".": 1,
        "/": 1,
        "tests\\unit": 1,
        "[\ufffd?*]": 1,
        "src/app": 2,
        "/j": 1,
        "m": 1,
        None: 3,
    }
    # Equal groups are in the order of their values, and no value is last.
    assert [group.value for group in found] == [
        *sorted(value for value in {g.value for g in found} if value is not None),
        None,
    ]


async def test_groups_are_the_same_however_many_rows_are_read_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    names = [f"{'area/' * (n % 2)}test {n}" for n in range(24)]
    for job, path in (("linux", "a/b.py"), ("mac", None), ("windows", "c.py"), ("linux", None)):
        run = make_run(f"{job} {path}", job=job)
        # A test has the file of its newest result, whatever its job.
        some = names[:6] if path == "a/b.py" else names[4:9] if path else names
        at = after(hours=path is not None)
        made = make_executions(run, [(name, P) for name in some], at, filepath=path)
        await store.write_results(WIDGETS, {run: made})
    await store.refresh_tests(NOON)
    expected = [await store.group_tests(WIDGETS, by, 10) for by in GROUPINGS]
    assert [len(groups) for groups in expected] == [1, 3, 4]
    for rows in (1, 2, 7):
        for limit in ("_BUCKETS", "_PLACES", "_GROUPS_AT_ONCE"):
            monkeypatch.setattr(elasticsearch_groups, limit, rows)
        monkeypatch.setattr(distinct_tests, "_ROWS", rows)
        monkeypatch.setattr(text_groups, "_BUCKETS", 5 * rows)
        # Reads only the names with a path, or all names of tests without a file.
        monkeypatch.setattr(text_groups, "_MOST_PATHS", rows % 2)
        monkeypatch.setattr(sqlite_groups, "_TESTS_AT_ONCE", rows)
        assert [await store.group_tests(WIDGETS, by, 10) for by in GROUPINGS] == expected


async def test_a_test_is_in_every_group_of_its_file(store: Store) -> None:
    await load_files(store, {"a": "a", "b": "b", "c": None})

    def find_values(path: str | None, _: str | None) -> Sequence[str | None]:
        return {None: (None,), "a": ("one",), "b": ("one", "two")}[path]

    found = await store.group_tests(WIDGETS, Grouping.OWNER, 10, find_values)
    assert {group.value: group.tests for group in found} == {"one": 2, "two": 1, None: 1}


_results = st.lists(
    st.tuples(
        st.sampled_from("abcdefgh"),
        st.sampled_from(["ci", "nightly"]),
        st.sampled_from(["linux", "mac", "windows"]),
        st.integers(0, 3),
        st.sampled_from([P, F, S]),
    ),
    min_size=1,
    max_size=40,
)


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(results=_results, number=st.integers(0, 10**9))
async def test_groups_are_what_the_rows_of_the_search_add_up_to(
    store: Store, results: list[tuple[str, str, str, int, Conclusion]], number: int
) -> None:
    repository = RepositoryName("acme", f"widgets-{number}")
    await store.ensure_repository(repository)
    for at, (name, pipeline, job, commit, conclusion) in enumerate(results):
        run = make_run(str(at), pipeline=pipeline, job=job, commit=str(commit))
        made = make_executions(
            run, [(name, conclusion)], repository=repository, filepath=f"{ord(name) % 3}/{name}"
        )
        await store.write_results(repository, {run: made})
    await store.refresh_tests(NOON)
    query = TestQuery(repository, ("*",), with_metrics=True)
    rows = (await store.search_tests(query, Anchor(), 100)).rows
    worst_last = ["unknown", "healthy", "flaky", "broken"]
    for by in GROUPINGS:
        healths: dict[tuple[str, str], HealthStatus] = {}
        executions: dict[str, list[int]] = {}
        for row in rows:
            key, metrics = row.key, row.metrics
            assert metrics is not None
            value = {
                Grouping.PIPELINE: key.pipeline_name,
                Grouping.JOB: key.job_name,
                Grouping.DIRECTORY: str(ord(key.test_name) % 3),
            }[by]
            place = (value, key.test_name)
            healths[place] = max(
                healths.get(place, HealthStatus.UNKNOWN),
                metrics.health_status,
                key=worst_last.index,
            )
            counted = executions.setdefault(value, [0, 0])
            counted[0] += metrics.executions_count
            counted[1] += metrics.failed_executions_count
        expected = []
        for value, counted in executions.items():
            found = [health for (group, _), health in healths.items() if group == value]
            unknown, healthy, flaky, broken = (found.count(HealthStatus(h)) for h in worst_last)
            total, failed = counted
            expected.append(
                Group(value, len(found), healthy, flaky, broken, unknown, total, failed)
            )
        expected.sort(key=lambda g: (-g.broken, -g.flaky, -g.failed_executions_count, g.value))
        assert await store.group_tests(repository, by, 10) == expected
