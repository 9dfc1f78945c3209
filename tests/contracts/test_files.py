"""The files of a repository's tests, and the search for tests of many files, on any store."""

from __future__ import annotations

import pytest

from indexing.models.executions import Conclusion
from indexing.models.file_selections import MANY_FILES, FileSelection
from indexing.models.paging import Anchor, Page
from indexing.models.tests import IdentityKey, TestQuery, TestSort
from indexing.models.tests import TestIdentity as Row
from indexing.names import RepositoryName
from indexing.store.interface import Store
from indexing.store.sqlite.search import conditions, strategy
from tests.builders import GADGETS, NOON, WIDGETS, make_executions, make_run
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.walking import walk_both_ways

pytestmark = on_stores_and_one_cache

# In the order of code points; the last two are in another order in UTF-16.
ODD = [
    "\t",
    '"',
    "%",
    "*",
    "A\\b.cs",
    "[?]",
    "a b",
    "a/b",
    "\u0301",
    "日本",
    "\ufffe",
    "\U0001f9ea",
]


async def load(
    store: Store, files: dict[str, str | None], repository: RepositoryName = WIDGETS
) -> None:
    """Load one test of each name, with that file."""
    await store.ensure_repository(repository)
    written = {}
    for number, path in enumerate(dict.fromkeys(files.values())):
        run = make_run(str(number))
        results = [(name, Conclusion.PASSED) for name, of in files.items() if of == path]
        written[run] = make_executions(run, results, repository=repository, filepath=path)
    await store.write_results(repository, written)
    await store.refresh_tests(NOON)


async def list_all(store: Store, limit: int) -> list[str]:
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        some = await store.list_filepaths(WIDGETS, after, limit)
        found += some
        if len(some) < limit:
            return found


async def test_files_are_listed_once_in_the_order_of_code_points(store: Store) -> None:
    files: dict[str, str | None] = {f"{path} {n}": path for path in ODD for n in range(2)}
    await load(store, {**files, "none": None})
    await load(store, {"x": "elsewhere"}, GADGETS)
    for limit in (1, 5, len(ODD), 100):
        assert await list_all(store, limit) == ODD
    assert await store.list_filepaths(RepositoryName("no", "such"), None, 10) == []


async def test_a_file_is_found_by_its_exact_path(store: Store) -> None:
    await load(store, {**{path: path for path in ODD}, "none": None})
    for path in ODD:
        assert await names(store, FileSelection((path,))) == [path]
    assert await names(store, FileSelection(tuple(ODD[:2]), without_file=True)) == [
        *sorted(ODD[:2]),
        "none",
    ]
    assert await names(store, FileSelection(without_file=True)) == ["none"]
    assert await names(store, FileSelection()) == []
    assert await names(store, FileSelection(("a/*", "", "a"))) == []


@pytest.mark.parametrize(
    ("to_look_up", "to_sort"),
    [(0, 0), (10_000, 100), (10_000, 10_000)],
    ids=["walked", "looked up and walked", "looked up and sorted"],
)
async def test_the_tests_of_many_files_are_found_page_by_page(
    store: Store, monkeypatch: pytest.MonkeyPatch, to_look_up: int, to_sort: int
) -> None:
    monkeypatch.setattr(conditions, "_MANY_TO_LOOK_UP", to_look_up)
    monkeypatch.setattr(strategy, "MANY", to_sort)
    count = MANY_FILES + 60
    files: dict[str, str | None] = {f"t{n:04}": f"src/{n}.py" for n in range(2 * count)}
    await load(store, {**files, "u1": None, "u2": None})
    chosen = tuple(f"src/{n}.py" for n in range(0, 2 * count, 2))
    for without_file in (False, True):
        selection = FileSelection(chosen, without_file=without_file)
        assert selection.is_large
        expected = [f"t{n:04}" for n in range(0, 2 * count, 2)]
        expected += ["u1", "u2"] if without_file else []
        assert await names(store, selection) == expected
        assert await names(store, selection, pattern="t000?") == expected[:5]
        assert await names(store, selection, pattern="t0002") == ["t0002"]
        assert await names(store, selection, pattern="t0003") == []
        query = ask(selection)
        assert await store.count_matches(query, 10_000) == len(expected)
        assert await store.count_matches(query, 7) == 7


def ask(files: FileSelection, pattern: str = "*") -> TestQuery:
    return TestQuery(WIDGETS, (pattern,), TestSort.TEST_NAME, descending=False, files=files)


async def names(store: Store, files: FileSelection, pattern: str = "*") -> list[str]:
    query = ask(files, pattern)

    async def read(anchor: Anchor[IdentityKey]) -> Page[Row]:
        return await store.search_tests(query, anchor, 100)

    return [row.key.test_name for row in await walk_both_ways(read)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (TestQuery(WIDGETS, ("*p?r?a?m?e?t*",), filepaths=("src/a.py",)), ["xp1r2a3m4e5t6"]),
        (TestQuery(WIDGETS, ("plain",), filepaths=("*s?c?a?p?*",)), ["plain"]),
        (TestQuery(WIDGETS, ("plain",), patterns_excluded=("*p?r?a?m?e?t*",)), ["plain"]),
    ],
    ids=["a file", "a glob of files", "an excluded glob"],
)
async def test_an_expensive_glob_in_one_filter_goes_with_a_plain_text_in_another(
    store: Store, query: TestQuery, expected: list[str]
) -> None:
    await load(store, {"xp1r2a3m4e5t6": "src/a.py", "plain": "s1c2a3p4"})
    page = await store.search_tests(query, Anchor(), 10)
    assert [row.key.test_name for row in page.rows] == expected
