"""Every way to a page of the test search gives the rows of the oracle, and costs what it should."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing import globs
from indexing.identifiers import derive_test_id
from indexing.models.paging import Anchor
from indexing.models.tests import TestIdentity as Row
from indexing.models.tests import TestQuery
from indexing.store.sqlite.search.rows import add_functions
from indexing.store.sqlite.search.strategy import (
    count_in_order,
    count_narrowed,
    search_candidates,
    search_few,
    search_in_order,
)
from tests.builders import FOREIGN, WIDGETS, load_names
from tests.indexing.store.sqlite.steps import count_steps
from tests.new_stores import open_new_store

# One, two, three and four bytes of UTF-8, and what SQLite's GLOB takes for one character.
ALPHABET = 'ab_"é日🧪\ufffd\ufffe'
COMMON = [f"suite.py::test_{n:04}" for n in range(1_500)]


def _make_names() -> list[str]:
    random_ = random.Random(5)
    pairs = [a + b for a in ALPHABET for b in ALPHABET]
    longer = [
        "".join(random_.choices(ALPHABET, k=length)) for length in [3, 4, 5, 15, 16, 17, 18] * 20
    ]
    return sorted({*ALPHABET, *pairs, *longer, "a" * 8_000, "b" + "a" * 7_999})


NAMES = _make_names()


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """A name with some of its parts replaced by wildcards."""
    pattern = draw(st.sampled_from(NAMES))[:40]
    for _ in range(draw(st.integers(1, 3))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(pattern))] * 2)))
        pattern = pattern[:start] + draw(st.sampled_from(["*", "?", "**", "*?"])) + pattern[end:]
    return pattern


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Two repositories, written in turns: one with odd names, the other with these and more."""
    folder = tmp_path_factory.mktemp("plans")
    asyncio.run(_fill(folder))
    with closing(sqlite3.connect(folder / "mergewatch.db", isolation_level=None)) as connection:
        add_functions(connection)
        yield connection


async def _fill(folder: Path) -> None:
    store = await open_new_store(folder)
    await load_names(store, NAMES[:100], repository=FOREIGN)
    await load_names(store, NAMES)
    await load_names(store, [*NAMES[100:], *COMMON, "one qz", "x" * 20], repository=FOREIGN)
    await store.close()


@settings(max_examples=300, deadline=None)
@given(pattern=patterns(), second=st.none() | patterns(), descending=st.booleans())
def test_every_plan_gives_the_rows_of_the_oracle(
    connection: sqlite3.Connection, pattern: str, second: str | None, descending: bool
) -> None:
    given_patterns = (pattern,) if second is None else (pattern, second)
    query = TestQuery(WIDGETS, given_patterns, descending=descending)
    expected = [n for n in NAMES if any(globs.matches(p, n) for p in given_patterns)]
    expected.sort(reverse=descending)
    for search in (search_few, search_candidates, search_in_order):
        page = search(connection, query, Anchor(), 1_000)
        if page is not None:
            assert [row.key.test_name for row in page.rows] == expected, search
            ids = [derive_test_id(WIDGETS, name) for name in expected]
            assert [row.test_id for row in page.rows] == ids
    for count in (count_narrowed, count_in_order):
        assert count(connection, query, 1_000) == len(expected), count


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        pytest.param("suite.py::test_000*", 10, id="a beginning"),
        pytest.param("*_0042", 1, id="an end"),
        pytest.param("*xxxxxxxxxxxxxxxxxxxx", 1, id="an end longer than the index holds"),
        pytest.param("suite*_0042", 1, id="a common beginning and a rare end"),
        pytest.param("suite.py::test_0042*t", 0, id="a rare beginning and a common end"),
        pytest.param("*_004*", 10, id="a part"),
        pytest.param("*qz*", 1, id="two characters"),
        pytest.param("o*qz", 1, id="a short beginning and a short end"),
        pytest.param("*🧪日*", sum("🧪日" in name for name in NAMES), id="characters beyond ASCII"),
    ],
)
def test_few_names_among_many_are_found_without_reading_the_others(
    connection: sqlite3.Connection, pattern: str, found: int
) -> None:
    query = TestQuery(FOREIGN, (pattern,))
    rows: list[Row] = []

    def search() -> None:
        page = search_few(connection, query, Anchor(), 100)
        assert page is not None
        rows.extend(page.rows)

    # A walk over all names takes nine steps for each.
    assert count_steps(connection, search) < 3 * len(COMMON)
    assert len(rows) == found


@pytest.mark.parametrize("pattern", ["*", "*?", "*a*", "*suite*", "*t*", "suite*", "*_*"])
def test_a_pattern_of_many_names_is_abandoned_early(
    connection: sqlite3.Connection, pattern: str
) -> None:
    query = TestQuery(FOREIGN, (pattern,))

    def search() -> None:
        assert search_few(connection, query, Anchor(), 10) is None

    assert count_steps(connection, search) < 6 * len(COMMON)
