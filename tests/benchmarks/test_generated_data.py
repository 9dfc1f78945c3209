"""The generated data: valid, reproducible, and with as many matches as the table says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.data.generated import (
    EVENTS_FROM,
    EVENTS_TO,
    MEASURED,
    ODD_EVERY,
    EventMaker,
    batches_of,
    name_of,
    repositories_of,
)
from benchmarks.data.input import event_text, write_reports
from benchmarks.data.sizes import FULL
from benchmarks.parts.bench import DEEP_PAGES
from benchmarks.parts.growth import GROWING_SERIES, STEADY_SERIES, stages_of
from benchmarks.requests.dialects import datasette_path, elasticsearch_path, service_path
from benchmarks.requests.operations import BY_NAME, OPERATIONS, SCAN, Kind, QueriedRepository
from indexing.events.parsing import parse_event
from indexing.globs import matches
from indexing.junit.cases import ReportCase
from indexing.junit.reader import read_report
from indexing.store.sqlite.search.plan import find_bigrams, find_trigrams

QUERIED = QueriedRepository(MEASURED, 10_000)
NAMES = [name_of(number) for number in range(QUERIED.tests)]


def test_generated_events_are_valid() -> None:
    maker = EventMaker()
    for number in (0, 1, 546, 547, 99_999):
        event = maker.make(number, 100_000)
        assert parse_event(event.body).finish(MEASURED) == event
        assert EVENTS_FROM <= event.key.received_at < EVENTS_TO


def test_generated_names_of_tests_differ() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("operation", "share"),
    [
        ("glob-prefix", 100 / 10_000),
        ("glob-common", 1 / 8),
        ("glob-suffix", 1 / 1_000),
        ("glob-two", 1 / 2_000),
    ],
)
def test_globs_match_as_many_names_as_the_table_says(operation: str, share: float) -> None:
    glob = BY_NAME[operation].glob
    assert glob is not None
    for number in (None, 1, 12_345):
        found = sum(matches(glob(QUERIED, number), name) for name in NAMES)
        assert found == share * len(NAMES)


def test_no_index_narrows_the_slowest_search_down() -> None:
    assert SCAN.glob is not None
    glob = SCAN.glob(QUERIED, None)
    assert glob.startswith("*")
    assert glob.endswith("*")
    assert find_trigrams(glob) == find_bigrams(glob) == []
    assert sum(matches(glob, name) for name in NAMES) == len(NAMES) / ODD_EVERY


def test_every_glob_matches_something_however_small_the_repository() -> None:
    for tests in (100, 500, 10_000):
        names = NAMES[:tests]
        for operation in OPERATIONS:
            if operation.glob is not None:
                glob = operation.glob(QueriedRepository(MEASURED, tests), None)
                assert any(matches(glob, name) for name in names), (operation.name, tests)


def test_the_tests_of_all_repositories_add_up() -> None:
    size = replace(FULL.store, tests=1_000, identities=12_345)
    found = list(repositories_of(size))
    assert found[0] == (MEASURED, 1_000)
    assert sum(tests for _, tests in found) == 12_345
    assert len({name.key for name, _ in found}) == len(found)


def test_tests_of_the_measured_repository_ran_once_twice_or_three_times() -> None:
    counts: dict[str, int] = {}
    ids = set()
    for batch in batches_of(MEASURED, 90):
        for execution in batch.executions:
            counts[execution.test_name] = counts.get(execution.test_name, 0) + 1
            ids.add(execution.id)
    assert [list(counts.values()).count(n) for n in (1, 2, 3)] == [60, 20, 10]
    assert len(ids) == sum(counts.values())


@pytest.mark.slow
@pytest.mark.parametrize("path_of", [service_path, datasette_path, elasticsearch_path("bench")])
def test_numbered_requests_of_lists_are_all_different(path_of: object) -> None:
    assert callable(path_of)
    for operation in OPERATIONS:
        if operation.page == 1 and operation.kind in (Kind.SEARCH, Kind.EVENTS):
            paths = [path_of(operation, QUERIED, number) for number in (None, *range(1, 5_000))]
            assert len(set(paths)) == len(paths)


def test_what_is_loaded_against_the_clock_is_read_whole(tmp_path: Path) -> None:
    assert len(event_text(20).splitlines()) == 20
    reports = write_reports(tmp_path, 1_500, same_tests=False)
    assert len(reports) == 2
    with reports[1].path.open("rb") as stream:
        cases = [found for found in read_report(stream) if isinstance(found, ReportCase)]
    # A report separates a function from its class with a dot.
    expected = [".".join(name_of(number).rsplit("::", 1)) for number in (1_000, 1_001)]
    assert [case.test_name for case in cases[:2]] == expected
    assert len(cases) == 500


def test_reports_of_the_same_tests_begin_with_the_first_one(tmp_path: Path) -> None:
    reports = write_reports(tmp_path, 1_500, same_tests=True)
    names = []
    for report in reports:
        with report.path.open("rb") as stream:
            names.append(
                next(c.test_name for c in read_report(stream) if isinstance(c, ReportCase))
            )
    assert names == [".".join(name_of(0).rsplit("::", 1))] * 2


def test_growth_queries_a_growing_repository_and_a_constant_one() -> None:
    stages = [stage for stage in stages_of(FULL) if stage.series in (GROWING_SERIES, STEADY_SERIES)]
    assert [s.queried.tests for s in stages if s.series == GROWING_SERIES] == [
        100,
        1_000,
        10_000,
        100_000,
    ]
    assert {s.queried.tests for s in stages if s.series == STEADY_SERIES} == {500}


def test_the_deep_page_is_there_in_every_store_of_events() -> None:
    deep = BY_NAME["events-deep"]
    stages = [stage for stage in stages_of(FULL) if deep in stage.operations]
    stores = [FULL.store, *(stage.store for stage in stages)]
    assert len(stores) > 2
    for store in stores:
        assert store.events > (deep.page + DEEP_PAGES) * deep.per_page
