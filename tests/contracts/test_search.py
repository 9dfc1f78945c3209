"""The test search of any store: the same rows as the simple oracle, in order, page by page."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing import globs
from indexing.identifiers import derive_identity_id, derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor, Page
from indexing.models.tests import VALUE_SORTS, IdentityKey, TestQuery, TestSort
from indexing.models.tests import TestIdentity as Row
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import (
    FOREIGN,
    NOON,
    WIDGETS,
    after,
    load_names,
    make_executions,
    make_run,
)
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.walking import a_few_times, walk_backwards, walk_both_ways, walk_forwards

# Each Hypothesis example gets a new repository; all are in one store.
_numbers = itertools.count()

# Characters that some engine treats as special, and characters that are more than one byte, code
# unit or code point; SQLite's GLOB confuses the last three with each other.
ODD_CHARACTERS = "ab[]\\{}^%_\"'.-|()+$#&~<>@!,:/ \n\té\u0301日本🧪👩\u200d🔬\ufffd\ufffe\uffff"
NAMES = st.text(st.sampled_from(ODD_CHARACTERS), min_size=1, max_size=12)
PATTERNS = st.text(st.sampled_from(ODD_CHARACTERS + "****????"), min_size=1, max_size=10).filter(
    lambda pattern: pattern.count("*") <= 16
)


def ask(*patterns: str, repository: RepositoryName = WIDGETS, **rest: Any) -> TestQuery:
    return TestQuery(repository=repository, patterns=patterns or ("*",), **rest)


async def names(store: Store, query: TestQuery) -> list[str]:
    page = await store.search_tests(query, Anchor(), 1_000)
    return [row.key.test_name for row in page.rows]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    stored=st.lists(NAMES, max_size=25, unique=True),
    patterns=st.lists(PATTERNS | NAMES, min_size=1, max_size=3),
    sort=st.sampled_from(TestSort),
    descending=st.booleans(),
)
async def test_globs_agree_with_the_oracle(
    store: Store, stored: list[str], patterns: list[str], sort: TestSort, descending: bool
) -> None:
    repository = RepositoryName("globs", f"r{next(_numbers)}")
    await load_names(store, stored, repository=repository)
    query = ask(*patterns, repository=repository, sort=sort, descending=descending)
    expected = [n for n in stored if any(globs.matches(p, n) for p in patterns)]
    assert await names(store, query) == sorted(expected, reverse=descending)


# Frequent and rare patterns: with a literal prefix, suffix or middle part, or with no literal.
MANY_NAMES_PATTERNS = [
    "*",
    "suite.test_0*",
    "*rare*",
    "*_1234",
    "suite.test_12??",
    "*1*2*3*",
    "???",
    "*ée*",
    "nothing*here",
    "*[0]*",
    "suite.test_*rare",
]


@pytest.mark.slow
@on_stores_and_one_cache
async def test_globs_over_thousands_of_names_agree_with_the_oracle(store: Store) -> None:
    stored = [f"suite.test_{n:04}" for n in range(1_500)]
    stored += ["suite.test_rare", "rare[0]", "caféée", "one", "two", "suite.test_x1y2z3"]
    stored += [name + "rare" for name in stored]
    await load_names(store, stored, repository=FOREIGN)
    await load_names(store, stored)
    matching = {
        pattern: sorted(name for name in stored if globs.matches(pattern, name))
        for pattern in MANY_NAMES_PATTERNS
    }
    for (pattern, expected), sort in itertools.product(matching.items(), TestSort):
        query = ask(pattern, sort=sort, descending=False)

        async def read(anchor: Anchor[IdentityKey], query: TestQuery = query) -> Page[Row]:
            return await store.search_tests(query, anchor, 900)

        found = [row.key.test_name for row in await walk_forwards(read)]
        assert found == expected, (pattern, sort)
        found = [row.key.test_name for row in await walk_backwards(read)]
        assert found == expected, (pattern, sort)


async def test_a_row_has_the_id_of_its_test_and_is_found_by_its_own(store: Store) -> None:
    await load_names(store, ["t"], make_run(pipeline="p", job="j"))
    (row,) = (await store.search_tests(ask(), Anchor(), 1)).rows
    assert row == Row(derive_test_id(WIDGETS, "t"), IdentityKey(1, "t", "p", "j"))
    identity_id = derive_identity_id(WIDGETS, "t", "p", "j")
    assert await store.find_identity(WIDGETS, identity_id) == row.key
    assert await store.find_identity(FOREIGN, identity_id) is None
    assert await store.find_identity(WIDGETS, b"0" * 16) is None


async def test_there_is_one_row_for_each_test_pipeline_and_job(store: Store) -> None:
    for pipeline, job in [("p", "a"), ("p", "b"), ("q", "a")]:
        await load_names(store, ["t"], make_run(pipeline=pipeline, job=job))
    await load_names(store, ["t"], make_run("again", pipeline="p", job="a"))
    page = await store.search_tests(ask(), Anchor(), 10)
    assert {(r.key.pipeline_name, r.key.job_name) for r in page.rows} == {
        ("p", "a"),
        ("p", "b"),
        ("q", "a"),
    }
    assert len(page.rows) == 3
    assert len({row.test_id for row in page.rows}) == 1


ORDERS = {
    TestSort.EXECUTIONS_COUNT: ("executions_count", "test_name", "pipeline_name", "job_name"),
    TestSort.TEST_NAME: ("test_name", "pipeline_name", "job_name"),
    TestSort.PIPELINE_NAME: ("pipeline_name", "test_name", "job_name"),
    TestSort.JOB_NAME: ("job_name", "test_name", "pipeline_name"),
}


async def test_every_order_runs_both_ways_and_ends_in_the_names(store: Store) -> None:
    random_ = random.Random(3)
    results = {}
    for number in range(12):
        run = make_run(
            str(number), pipeline=random_.choice("pqé"), job=random_.choice(["a", "Ab", "🧪"])
        )
        sampled = random_.sample(["t1", "t2", "T3", "ü", "日"], 3)
        results[run] = make_executions(run, [(name, Conclusion.PASSED) for name in sampled])
    await store.ensure_repository(WIDGETS)
    await store.write_results(WIDGETS, results)
    await store.refresh_tests(NOON)
    # The orders by a metric have contracts of their own.
    assert {*ORDERS} | VALUE_SORTS == {*TestSort}
    for (sort, columns), descending in itertools.product(ORDERS.items(), [False, True]):
        rows = (await store.search_tests(ask(sort=sort, descending=descending), Anchor(), 100)).rows
        keys = [tuple(getattr(row.key, column) for column in columns) for row in rows]
        assert keys == sorted(keys, reverse=descending), (sort, descending)
        assert len(keys) == len(set(keys)) > 10


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"pa", "pb", "qa", "qb", "ra"}),
    ({"pipelines": ("p",)}, {"pa", "pb"}),
    ({"pipelines": ("p", "q", "p")}, {"pa", "pb", "qa", "qb"}),
    ({"pipelines": ("p*",)}, set()),
    ({"pipelines_excluded": ("p", "nowhere")}, {"qa", "qb", "ra"}),
    ({"jobs": ("a",)}, {"pa", "qa", "ra"}),
    ({"jobs_excluded": ("a",)}, {"pb", "qb"}),
    ({"pipelines": ("p", "q"), "pipelines_excluded": ("q",)}, {"pa", "pb"}),
    ({"jobs": ("a",), "jobs_excluded": ("a",)}, set()),
    ({"pipelines": ("q",), "jobs": ("b",)}, {"qb"}),
    ({"pipelines_excluded": ("q",), "jobs_excluded": ("b",)}, {"pa", "ra"}),
]


async def test_pipelines_and_jobs_are_included_and_excluded(
    store: Store,
) -> None:
    for pipeline, job in ("pa", "pb", "qa", "qb", "ra"):
        await load_names(store, ["t", "the test"], make_run(pipeline=pipeline, job=job))
    for (filters, expected), pattern in itertools.product(FILTERS, ["*", "t", "*he test*"]):
        page = await store.search_tests(ask(pattern, **filters), Anchor(), 100)
        found = {row.key.pipeline_name + row.key.job_name for row in page.rows}
        assert found == expected, (filters, pattern)


# A Latin square: every pair of a limit, an order and a pattern occurs once.
WALKS = [
    (limit, sort, ["*", "test_*", "*_1*"][(row + column) % 3])
    for row, limit in enumerate([1, 3, 100])
    for column, sort in enumerate([TestSort.TEST_NAME, TestSort.PIPELINE_NAME, TestSort.JOB_NAME])
]


def names_of(row: Row) -> tuple[str, str, str]:
    return row.key.test_name, row.key.pipeline_name, row.key.job_name


@pytest.mark.parametrize(("limit", "sort", "pattern"), WALKS)
async def test_a_walk_meets_every_row_once_while_others_are_written(
    store: Store, limit: int, sort: TestSort, pattern: str
) -> None:
    random_ = random.Random(limit)
    for job in "xyz":
        await load_names(store, [f"test_{n}" for n in range(4)], make_run(job=job))
    query = ask(pattern, sort=sort, descending=bool(limit % 2))
    start = set((await store.search_tests(query, Anchor(), 1_000)).rows)

    async def read(anchor: Anchor[IdentityKey]) -> Page[Row]:
        return await store.search_tests(query, anchor, limit)

    async def write_more() -> None:
        name = f"test_{random_.random()}"
        await load_names(store, [name], make_run(job=random_.choice("wxyz")))

    for walk in (walk_forwards, walk_backwards):
        found = [names_of(row) for row in await walk(read, a_few_times(write_more))]
        assert len(found) == len(set(found))
        assert set(map(names_of, start)) <= set(found)


async def test_rows_whose_count_stays_are_met_once_in_the_order_of_counts(store: Store) -> None:
    stored = [f"steady_{n}" for n in range(30)]
    for number in range(3):
        await load_names(store, stored[number * 10 :], make_run(str(number)))
    runs = iter(range(100, 1_000))

    async def read(anchor: Anchor[IdentityKey]) -> Page[Row]:
        return await store.search_tests(ask(), anchor, 4)

    async def write_more() -> None:
        await load_names(store, ["busy"], make_run(str(next(runs))))

    for walk in (walk_forwards, walk_backwards):
        found = [row.key.test_name for row in await walk(read, write_more)]
        assert sorted(name for name in found if name != "busy") == sorted(stored)


async def test_only_the_default_branch_is_searched(store: Store) -> None:
    await load_names(store, ["here"], make_run(branch="main"))
    await load_names(store, ["there"], make_run(branch="feature"))
    assert await names(store, ask()) == ["here"]
    assert await names(store, ask("there")) == []
    await load_names(store, ["there"], make_run("2", branch="main"))
    assert sorted(await names(store, ask())) == ["here", "there"]


async def test_a_test_that_was_only_ever_skipped_is_found(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    await store.write_results(
        WIDGETS, {run: make_executions(run, [("skipped", Conclusion.SKIPPED)])}
    )
    await store.refresh_tests(NOON)
    (row,) = (await store.search_tests(ask(), Anchor(), 10)).rows
    assert row.key == IdentityKey(1, "skipped", "ci", "unit")


async def test_the_count_is_of_the_window_and_a_silent_job_stays_in_the_list(store: Store) -> None:
    for days in (0, 1, 2):
        await load_names(store, ["t"], make_run(str(days), job="old"), at=after(days=days))
    await load_names(store, ["t"], make_run("new", job="new"), at=after(days=31))
    page = await store.search_tests(ask(), Anchor(), 10)
    assert [(r.key.job_name, r.key.executions_count) for r in page.rows] == [
        ("old", 1),
        ("new", 1),
    ]
    await load_names(store, ["t"], make_run("newer", job="new"), at=after(days=60))
    page = await store.search_tests(ask(), Anchor(), 10)
    assert [(r.key.job_name, r.key.executions_count) for r in page.rows] == [
        ("new", 2),
        ("old", 0),
    ]


async def test_a_job_that_only_skipped_long_ago_is_in_the_list(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run(job="nightly")
    skipped = make_executions(run, [("t", Conclusion.SKIPPED)], after(days=-40))
    await store.write_results(WIDGETS, {run: skipped})
    await load_names(store, ["t"])
    page = await store.search_tests(ask(), Anchor(), 10)
    assert [(r.key.job_name, r.key.executions_count) for r in page.rows] == [
        ("unit", 1),
        ("nightly", 0),
    ]


@on_stores_and_one_cache
@pytest.mark.parametrize(
    "pattern",
    [
        "*" + "a" * 300 + "*" + "b" * 300 + "*",
        "*".join(["", *[f"{n:040}" for n in range(15)], ""]),
        "?" * 100 + "*" + "é" * 900,
    ],
    ids=["long", "many stars", "many question marks"],
)
async def test_patterns_that_are_complex_for_an_engine_are_answered(
    store: Store, pattern: str
) -> None:
    fits = pattern.replace("*", "x").replace("?", "y")
    await load_names(store, [fits, fits + "z", "x"])
    expected = [name for name in (fits, fits + "z", "x") if globs.matches(pattern, name)]
    assert sorted(await names(store, ask(pattern))) == sorted(expected)
    assert fits in expected


# The most that a request of 8,000 bytes and 500 wildcards can contain.
EXPENSIVE = {
    "no stars": ["?" * (2_048 - number) for number in range(3)],
    "no stars, and an end": ["?" * (20 + number) + "a" for number in range(80)],
    "one star": ["*" + "?" * 499],
    "a star and a letter": ["*a" + "?" * 498],
    "gaps": ["*a" + "?a" * 200 + "b"],
    "few gaps": ["*a????b", "*a?????b", "*b" + "?" * 20 + "a"],
    "long": ["*" + "a" * 2_000 + "b", "*" + "ab" * 1_000, "*" + "a" * 999 + "*b"],
    "long starts": ["a" * 2_000 + "*", "a" * 2_046 + "?*", "\U0001f9ea" * 490 + "*"],
    "many": [f"*{'a' * 60}{number}" for number in range(100)],
    "many stars": ["*a" * 15 + f"*{number}" for number in range(31)],
}


@on_stores_and_one_cache
@pytest.mark.parametrize("kind", EXPENSIVE)
async def test_the_most_expensive_patterns_are_answered_as_the_oracle_says(
    store: Store, kind: str
) -> None:
    stored = ["a" * length for length in (1, 5, 21, 60, 499, 500, 2_046, 2_048, 7_000)]
    stored += [f"{'a' * 60}{number}" for number in range(12)]
    stored += [
        "\U0001f9ea" * 500,
        "ab" * 1_500,
        "a" * 2_500 + "b",
        "b" + "x" * 20 + "a",
        "ax??b",
        "a1234b",
        "a12345b",
    ]
    await load_names(store, stored)
    patterns = tuple(EXPENSIVE[kind])
    expected = sorted(name for name in stored if any(globs.matches(p, name) for p in patterns))
    for sort in TestSort:
        query = ask(*patterns, sort=sort, descending=False)

        async def read(anchor: Anchor[IdentityKey], query: TestQuery = query) -> Page[Row]:
            return await store.search_tests(query, anchor, 7)

        assert [row.key.test_name for row in await walk_both_ways(read)] == expected
    everything = await store.search_tests(ask(), Anchor(), 1_000)
    matching = await store.search_tests(ask(*patterns), Anchor(), 1_000)
    # A row is the same whichever pattern found it.
    assert {*matching.rows} <= {*everything.rows}


async def test_case_is_significant_and_nothing_is_normalised(store: Store) -> None:
    await load_names(store, ["Case", "case", "caf\u00e9", "cafe\u0301"])
    assert await names(store, ask("case")) == ["case"]
    assert await names(store, ask("caf?")) == ["caf\u00e9"]
    assert await names(store, ask("caf??")) == ["cafe\u0301"]


async def test_a_name_of_8000_bytes_is_found_by_its_end(store: Store) -> None:
    long = "é" * 3_999 + "xy"
    await load_names(store, [long, long[:-1]])
    assert await names(store, ask("*xy")) == [long]
    assert await names(store, ask(long)) == [long]


async def test_an_unknown_repository_holds_nothing(store: Store) -> None:
    assert await names(store, ask(repository=FOREIGN)) == []
