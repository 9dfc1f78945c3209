"""Pages of the search among many rows with the same health, number of failures or job."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing import globs
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.tests import VALUE_SORTS, IdentityKey, TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.failures import TooManyTermsError
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.search.shortcuts import Shortcut, make_shortcut_query
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import WIDGETS, after, load_names, make_executions, make_run
from tests.contracts.walking import walk_both_ways
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

P, F = Conclusion.PASSED, Conclusion.FAILED
# Each Hypothesis example gets a new repository.
_numbers = itertools.count()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The bodies of all searches that are sent, in order."""
    found: list[Any] = []
    search, search_many = Connection.search, Connection.search_many

    async def note(self: Connection, index: str, body: Any, **options: Any) -> Any:
        found.append(body)
        return await search(self, index, body, **options)

    async def note_many(self: Connection, searches: Sequence[Search], **options: Any) -> Any:
        found.extend(each.body for each in searches)
        return await search_many(self, searches, **options)

    monkeypatch.setattr(Connection, "search", note)
    monkeypatch.setattr(Connection, "search_many", note_many)
    return found


async def load(store: ElasticsearchStore) -> None:
    """Load 12 rows: two jobs, three broken tests and three that are not."""
    await store.ensure_repository(WIDGETS)
    results = [(f"test_{n}", F if n % 2 else P) for n in range(6)]
    for job in ("linux", "mac"):
        run = make_run(job, job=job)
        await store.write_results(WIDGETS, {run: make_executions(run, results)})
    await store.refresh_tests(after(days=1))


async def forget_values(store: ElasticsearchStore, tests: Sequence[str]) -> None:
    """Write the rows of these tests again as an earlier release did, without metrics."""
    index = cluster_of(store).layout.identities
    found = await ask(store, "POST", f"/{index}/_search", {"size": 100})
    unknown = {sort.value for sort in VALUE_SORTS}
    for hit in found["hits"]["hits"]:
        source = hit["_source"]
        if source["test_name"] in tests:
            kept = {name: source[name] for name in source if name not in unknown}
            target = f"/{hit['_index']}/_doc/{hit['_id']}?routing={hit['_routing']}&refresh=true"
            await ask(store, "PUT", target, kept)


@pytest.mark.parametrize("sort", [*TestSort])
@pytest.mark.parametrize("descending", [True, False])
async def test_a_walk_meets_every_row_once_and_in_order(
    store: ElasticsearchStore, sort: TestSort, *, descending: bool
) -> None:
    await load(store)
    await forget_values(store, ("test_2", "test_3"))
    query = TestQuery(WIDGETS, ("*",), sort, descending=descending)

    whole = [*(await store.search_tests(query, Anchor(), 100)).rows]
    assert len(whole) == 12
    for per_page in (1, 2, 5):
        read = partial(store.search_tests, query, limit=per_page)
        assert await walk_both_ways(read) == whole


async def test_a_page_among_equal_rows_is_searched_by_name(
    store: ElasticsearchStore, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(store)
    query = TestQuery(WIDGETS, ("*",), TestSort.HEALTH_STATUS)
    rows = (await store.search_tests(query, Anchor(), 100)).rows

    async def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(Connection, "search", refuse)
    sent.clear()
    page = await store.search_tests(query, Anchor(rows[1].key), 3)
    assert page.rows == rows[2:5]
    # The second search looks for the anchor row.
    assert [[*order] for order in sent[0]["sort"]] == [
        ["key"],
        ["pipeline_name"],
        ["job_name"],
    ]
    assert len(sent) == 2


@pytest.mark.parametrize("sort", [TestSort.EXECUTIONS_COUNT, TestSort.FAILURE_RATIO])
async def test_a_search_for_names_reads_no_documents(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch, sort: TestSort
) -> None:
    await load(store)
    answers: list[Any] = []
    search = Connection.search

    async def note(self: Connection, *args: Any, **options: Any) -> Any:
        answers.append(await search(self, *args, **options))
        return answers[-1]

    monkeypatch.setattr(Connection, "search", note)
    read = partial(store.search_tests, anchor=Anchor(), limit=100)
    without = await read(TestQuery(WIDGETS, ("*_1",), sort))
    (answer,) = answers
    assert all("_source" not in hit and "_id" not in hit for hit in answer["hits"]["hits"])
    # The metrics are in the documents, which have the same ids and names.
    whole = await read(TestQuery(WIDGETS, ("*_1",), sort, with_metrics=True))
    assert without.rows == tuple(row._replace(metrics=None) for row in whole.rows)
    assert len(without.rows) == 2


@pytest.mark.parametrize("pattern", ["*def_7*", "*_77", "abc*_77*", "*_7*", "*77", "a*f_*77*"])
async def test_a_substring_is_looked_up_without_walking_all_names(
    store: ElasticsearchStore, sent: list[Any], pattern: str
) -> None:
    await load_names(store, [f"abcdef_{n}" for n in range(100)])
    read = partial(store.search_tests, TestQuery(WIDGETS, (pattern,)), limit=5)
    sent.clear()
    found = await walk_both_ways(read)
    names = sorted((f"abcdef_{n}" for n in range(100)), reverse=True)
    matching = [name for name in names if globs.matches(pattern, name)]
    assert [row.key.test_name for row in found] == matching
    assert matching
    assert "wildcard" not in str(sent)


async def test_names_with_all_trigrams_that_do_not_match_are_walked_instead(
    store: ElasticsearchStore, sent: list[Any]
) -> None:
    matching = [f"def_{n}_abc" for n in range(30)]
    await load_names(store, [*matching, *(f"zabc_{n}_def" for n in range(300))])
    read = partial(store.search_tests, TestQuery(WIDGETS, ("*def*abc*",)), limit=7)
    sent.clear()
    found = await walk_both_ways(read)
    assert sorted(row.key.test_name for row in found) == sorted(matching)
    # The node reads the names after one search, so the rows of all of them are never sent.
    assert ["wildcard" in str(body) for body in sent[:2]] == [False, True]
    assert max(body["size"] for body in sent) <= 8 + 10


@pytest.mark.parametrize(
    ("patterns", "excluded"),
    [(("*a*b*",), ()), (("*",), ("*slow*",)), (("*_z?_*", "nothing"), ()), (("t*",), ("*z*z*",))],
)
async def test_if_many_names_match_the_first_rows_are_scanned(
    store: ElasticsearchStore,
    sent: list[Any],
    patterns: tuple[str, ...],
    excluded: tuple[str, ...],
) -> None:
    names = [f"t{n:03}_a_zz_b" if n % 3 else f"t{n:03}_slow_z" for n in range(200)]
    names += [f"t{n:03}_a_b" for n in range(200, 260)]
    await load_names(store, names)
    query = TestQuery(WIDGETS, patterns, patterns_excluded=excluded)
    read = partial(store.search_tests, query, limit=10)
    matching = [
        name
        for name in sorted(names, reverse=True)
        if any(globs.matches(pattern, name) for pattern in patterns)
        and not any(globs.matches(pattern, name) for pattern in excluded)
    ]
    sent.clear()
    page = await read(anchor=Anchor())
    assert ["wildcard" in str(body) for body in sent] == [False]
    assert [row.key.test_name for row in page.rows] == matching[:10]
    found = await walk_both_ways(read)
    assert [row.key.test_name for row in found] == matching
    assert max(body["size"] for body in sent) <= 11 + 100


async def test_if_few_names_match_the_node_compares_all_after_one_scan(
    store: ElasticsearchStore, sent: list[Any]
) -> None:
    await load_names(store, [*(f"t{n:03}" for n in range(250)), "a_b", "t100_a_b", "t200_a_b"])
    query = TestQuery(WIDGETS, ("*a*b*",))
    sent.clear()
    page = await store.search_tests(query, Anchor(), 10)
    assert [row.key.test_name for row in page.rows] == ["t200_a_b", "t100_a_b", "a_b"]
    assert (page.has_previous, page.has_next) == (False, False)
    assert ["wildcard" in str(body) for body in sent] == [False, True]


async def test_long_names_are_scanned_once_and_alone(
    store: ElasticsearchStore, sent: list[Any]
) -> None:
    names = [f"{n:03}_a_b_" + "x" * 600 for n in range(150)]
    await load_names(store, names)
    query = TestQuery(WIDGETS, ("*a*b*",))
    for scans in (True, False):
        sent.clear()
        page = await store.search_tests(query, Anchor(), 5)
        assert [row.key.test_name for row in page.rows] == sorted(names, reverse=True)[:5]
        assert ["wildcard" not in str(body) for body in sent] == [scans]


async def test_a_scan_reads_only_names_with_the_prefix(
    store: ElasticsearchStore, sent: list[Any]
) -> None:
    await load_names(store, [*(f"z{n:03}" for n in range(150)), *(f"ab_{n}_x" for n in range(30))])
    query = TestQuery(WIDGETS, ("ab*x",), patterns_excluded=("*slow*",))
    sent.clear()
    page = await store.search_tests(query, Anchor(), 30)
    assert len(page.rows) == 30
    assert ["wildcard" in str(body) for body in sent] == [False]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    stored=st.lists(st.text("ab", min_size=1, max_size=7), max_size=60, unique=True),
    # Others before or behind them in the order, more than a search has to spare.
    others=st.sampled_from([[], [f"0{n}" for n in range(130)], [f"c{n}" for n in range(130)]]),
    pattern=st.text("ab***?", min_size=4, max_size=8),
    excluded=st.lists(st.text("ab*", min_size=1, max_size=4), max_size=1),
    sort=st.sampled_from([TestSort.EXECUTIONS_COUNT, TestSort.TEST_NAME, TestSort.HEALTH_STATUS]),
    limit=st.integers(1, 4),
)
async def test_walks_agree_with_the_oracle_however_many_names_a_shortcut_finds(
    store: ElasticsearchStore,
    stored: list[str],
    others: list[str],
    pattern: str,
    excluded: list[str],
    sort: TestSort,
    limit: int,
) -> None:
    repository = RepositoryName("globs", f"r{next(_numbers)}")
    stored = [*stored, *others]
    await load_names(store, stored, repository=repository)
    query = TestQuery(repository, (pattern,), sort, patterns_excluded=tuple(excluded))
    matching = [
        name
        for name in stored
        if globs.matches(pattern, name) and not any(globs.matches(p, name) for p in excluded)
    ]
    read = partial(store.search_tests, query, limit=limit)
    found = await walk_both_ways(read)
    assert [row.key.test_name for row in found] == sorted(matching, reverse=True)


@pytest.mark.parametrize("bigram", ["ab", "a_", "_(", '"\\\\', ".~", "  ", "{}", "#@", "&<"])
async def test_any_two_characters_are_found_whatever_follows_them(
    store: ElasticsearchStore, sent: list[Any], bigram: str
) -> None:
    following = [*map(chr, range(0x20, 0x80)), "é", "日", "\U0010ffff", ""]
    matching = sorted(f"x{bigram}{one}" for one in following)
    await load_names(store, [*matching, f"x{bigram[0]}x{bigram[1]}", "xa", bigram[::-1] + "x"])
    pattern = f"*x*{bigram}*"
    sent.clear()
    page = await store.search_tests(TestQuery(WIDGETS, (pattern,)), Anchor(), 500)
    assert [row.key.test_name for row in page.rows] == matching[::-1]
    assert "wildcard" not in str(sent)


async def test_thousands_of_trigrams_with_the_same_start_are_few_terms_of_the_query(
    store: ElasticsearchStore,
) -> None:
    await load_names(store, [f"ab{chr(0x4E00 + n)}" for n in range(1_200)] + ["abc", "abd"])
    query = make_shortcut_query(
        Shortcut.TRIGRAMS, TestQuery(WIDGETS, ("*ab*",)), routing_of(WIDGETS)
    )
    # One shard is chosen at random, and one without rows of the repository has no such trigram.
    options = "rewrite=true&all_shards=true"
    target = f"/{cluster_of(store).layout.identities}/_validate/query?{options}"
    answer = await ask(store, "POST", target, {"query": query})
    terms = max(found["explanation"].count("trigrams:") for found in answer["explanations"])
    # One for each ASCII character at most, one for all others, and one for long names.
    assert 4 <= terms <= 128 + 2


async def test_a_query_of_too_many_terms_is_walked_instead(
    store: ElasticsearchStore, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(store, ["xaby", "xbay"])
    search = Connection.search

    async def refuse(self: Connection, index: str, body: Any, **options: Any) -> Any:
        answer = await search(self, index, body, **options)
        if "regexp" in str(body):
            raise TooManyTermsError
        return answer

    monkeypatch.setattr(Connection, "search", refuse)
    sent.clear()
    page = await store.search_tests(TestQuery(WIDGETS, ("*ab*",)), Anchor(), 5)
    assert [row.key.test_name for row in page.rows] == ["xaby"]
    assert ["wildcard" in str(body) for body in sent] == [False, True]


async def test_a_page_beside_a_row_that_is_gone_says_what_lies_behind_it(
    store: ElasticsearchStore, sent: list[Any]
) -> None:
    await load_names(store, [f"abc_{n}_def" for n in range(10)])
    gone = IdentityKey(1, "abc_5x_def", "ci", "linux")
    for pattern, has_previous in (("*_def", True), ("*_5x_*", False), ("*def*abc*", False)):
        query = TestQuery(WIDGETS, (pattern,))
        page = await store.search_tests(query, Anchor(gone), 3)
        assert page.has_previous is has_previous
        names = [f"abc_{n}_def" for n in range(5, -1, -1)]
        assert [row.key.test_name for row in page.rows] == [
            name for name in names if globs.matches(pattern, name)
        ][:3]
    assert sent


async def test_a_name_that_is_too_long_for_trigrams_is_found(
    store: ElasticsearchStore, sent: list[Any]
) -> None:
    long = "suite." + "x" * 600
    await load_names(store, [f"{long}.rare", f"{long}.other", "short.rare"])
    query = TestQuery(WIDGETS, ("*rare*",))
    sent.clear()
    rows = (await store.search_tests(query, Anchor(), 9)).rows
    assert [row.key.test_name for row in rows] == [f"{long}.rare", "short.rare"]
    assert "wildcard" not in str(sent)


async def test_names_that_are_excluded_are_dropped_from_trigrams(
    store: ElasticsearchStore, sent: list[Any]
) -> None:
    await load_names(store, [f"abcdef_{n}" for n in range(40)])
    query = TestQuery(WIDGETS, ("*def_1*",), patterns_excluded=("*_1?",))
    sent.clear()
    assert [row.key.test_name for row in (await store.search_tests(query, Anchor(), 20)).rows] == [
        "abcdef_1"
    ]
    assert len(sent) == 1
