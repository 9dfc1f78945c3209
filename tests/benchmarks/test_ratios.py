"""Ratios: each round against its own floor, the median of the rounds, never rounded up."""

from __future__ import annotations

import pytest

from benchmarks.report import tables
from benchmarks.results import (
    CachedShare,
    Flood,
    History,
    Loaders,
    Memory,
    Rebuild,
    Results,
    Speed,
    compare,
)
from benchmarks.targets import all_targets, judge
from benchmarks.verdicts import TargetResult, cut
from tests.benchmarks.figures import OURS, THEIRS, figure_of


def test_a_round_is_held_against_its_own_floor() -> None:
    # The machine was half as fast in the second round, and so was the floor.
    figure = figure_of([(800, 1_000), (400, 500), (810, 1_000)])
    assert figure.ratio == pytest.approx(0.8)


def test_one_disturbed_round_does_not_move_the_ratio() -> None:
    assert figure_of([(500, 1_000), (10, 1_000), (510, 1_000)]).ratio == pytest.approx(0.5)


def test_two_stacks_are_compared_round_by_round() -> None:
    ours = figure_of([(900, 1_000), (450, 500)])
    theirs = figure_of([(300, 1_000), (150, 500)], stack=THEIRS)
    assert compare(ours, theirs) == pytest.approx(3)
    assert compare(theirs, ours) == pytest.approx(1 / 3)


def test_a_flood_is_judged_by_the_median_of_its_rounds() -> None:
    assert Flood((0.001, 0.002, 0.001), (0.002, 0.004, 0.1), 10).ratio == pytest.approx(2)


def test_memory_is_flat_when_the_second_half_adds_nothing() -> None:
    assert Memory(100, (10, 50, 100, 100, 100)).ratio == pytest.approx(1)
    assert Memory(100, (10, 50, 100, 150, 200)).ratio == pytest.approx(2)
    assert Memory(100, (10, 50, 100, 200)).ratio == pytest.approx(4)


def test_figures_of_many_clients_and_of_one_are_kept_apart() -> None:
    many, one = figure_of([(10, 10)]), figure_of([(1, 10)], connections=1)
    results = Results(figures=(one, many))
    assert results.find("detail", OURS, repeated=True) is many
    assert results.find("detail", OURS, repeated=True, connections=1) is one
    assert results.find("detail", OURS, repeated=False) is None


@pytest.mark.parametrize(
    ("figure", "up", "shown"),
    [
        (0.79999, False, "0.799"),
        (0.8, False, "0.800"),
        (1.5001, True, "1.501"),
        (3.0, True, "3.000"),
        (1_234.56, False, "1,234.5"),
        (30.01, True, "30.1"),
    ],
)
def test_a_figure_is_never_rounded_to_where_it_would_hold(
    figure: float, up: bool, shown: str
) -> None:
    assert cut(figure, up=up) == shown


def verdict_on(results: Results, words: str) -> TargetResult:
    (found,) = [verdict for verdict in judge(results) if verdict.target.text == words]
    return found


DETAIL = "test detail, mergewatch, SQLite, of the floor"


@pytest.mark.parametrize(
    ("rate", "holds", "word"),
    [(800, True, "holds"), (799.999, False, "DOES NOT HOLD")],
)
def test_a_target_holds_from_its_bound_on(rate: float, holds: bool, word: str) -> None:
    verdict = verdict_on(Results(figures=(figure_of([(rate, 1_000)]),)), DETAIL)
    assert (verdict.holds, verdict.word, verdict.required) == (holds, word, "≥ 0.8")


def test_what_was_not_measured_does_not_hold() -> None:
    verdict = verdict_on(Results(), DETAIL)
    assert (verdict.holds, verdict.word, verdict.shown) == (None, "not measured", "-")


def test_a_time_alone_is_judged_in_milliseconds() -> None:
    slow = figure_of([(1, 1_000)], operation="glob-two", repeated=False, connections=1, p50=0.0305)
    words = "glob, two characters (1 in 2,000), mergewatch, SQLite, time alone (median)"
    verdict = verdict_on(Results(figures=(slow,)), words)
    assert (verdict.holds, verdict.shown, verdict.required) == (False, "30.5 ms", "≤ 30 ms")


def test_a_search_on_elasticsearch_is_judged_under_load_and_not_alone() -> None:
    figures = [
        figure_of(
            [(rate, 1_000)], operation="events-10", stack=stack, repeated=False, connections=n
        )
        for stack, n, rate in (
            ("mergewatch, Elasticsearch", 64, 500),
            ("the store itself, Elasticsearch", 64, 700),
            ("mergewatch, Elasticsearch", 1, 100),
            ("the store itself, Elasticsearch", 1, 300),
        )
    ]
    words = (
        "event page of 10, mergewatch, Elasticsearch, times the raw search by itself, under load"
    )
    assert verdict_on(Results(figures=tuple(figures)), words).shown == "1.400"
    assert verdict_on(Results(figures=tuple(figures[2:])), words).holds is None
    assert "| event page of 10 | 3.000 |" in (tables.raw_table(Results(tuple(figures))) or "")


def test_every_operation_has_a_target_against_each_peer_over_the_same_store_and_cache() -> None:
    texts = [target.text for target in all_targets()]
    assert len(texts) == len(set(texts))
    assert "test detail, times FastAPI, SQLite, Redis" in texts
    assert "test detail, not cached, times FastAPI, Elasticsearch" in texts
    assert "event page 500, of 10, not cached, times Datasette, SQLite" in texts
    # The peers do not cache events.
    assert "event page of 10, times FastAPI, SQLite, Redis" not in texts


INTO = "into Elasticsearch"
# What the targets ask for, exactly.
LOADS = Results(
    speeds=tuple(
        Speed(kind, way, rate)
        for kind, part in (
            ("events", 500),
            ("executions of new tests", 350),
            ("executions of the same tests", 350),
        )
        for way, rate in ((INTO, part), ("plain bulk into Elasticsearch", 1_000))
    ),
    histories=(
        # The depth without history does not count.
        History(INTO, 0, 1.0, 9.0, 9.0, 0.0, 0.0),
        History(INTO, 30, 1.0, 0.5, 2.2, 2.0, 0.0),
        History(INTO, 3_000, 1.5, 9.0, 9.0, 1.0, 0.0),
    ),
    rebuilds=(Rebuild(INTO, 30, 10_000, 1_000.0, 9, 0.1),),
    loaders=(Loaders(INTO, 4, 40, 100.0, 200.0),),
    cached_shares=(CachedShare(INTO, 100, 10, 3),),
)


def verdicts_on_loads(results: Results) -> list[bool | None]:
    return [
        verdict_on(results, words).holds
        for words in (
            f"a report {INTO} with 3,000 executions a test, times one with 30",
            f"events a second, {INTO}, of plain bulk into Elasticsearch",
            f"executions of new tests a second, {INTO}, of plain bulk into Elasticsearch",
            f"executions of the same tests a second, {INTO}, of plain bulk into Elasticsearch",
            f"documents read for each execution {INTO}, with 30 executions a test",
            f"documents written for each execution {INTO}, with 30 executions a test",
            "tests rebuilt a second on Elasticsearch, with 30 executions each",
            f"executions a second {INTO} by four loaders of one repository, times one loader",
            f"share of cached answers during loads {INTO}, of what they do not change",
        )
    ]


def test_targets_of_loads_hold_at_their_bounds() -> None:
    assert verdicts_on_loads(LOADS) == [True] * 9


def test_no_target_of_loads_holds_beyond_its_bound() -> None:
    worse = Results(
        speeds=tuple(
            Speed(each.kind, each.way, each.per_second - 1 if each.way == INTO else 1_000)
            for each in LOADS.speeds
        ),
        histories=(
            History(INTO, 30, 1.0, 0.51, 2.21, 2.0, 0.0),
            History(INTO, 3_000, 1.51, 0.0, 0.0, 1.0, 0.0),
        ),
        rebuilds=(Rebuild(INTO, 30, 10_000, 999.0, 9, 0.1),),
        loaders=(Loaders(INTO, 4, 40, 100.0, 199.0),),
        cached_shares=(CachedShare(INTO, 100, 11, 3),),
    )
    assert verdicts_on_loads(worse) == [False] * 9


def test_loads_that_were_not_measured_do_not_hold() -> None:
    assert verdicts_on_loads(Results()) == [None] * 9
