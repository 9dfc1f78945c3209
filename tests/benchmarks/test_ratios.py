"""Ratios: each round against its own floor, the median of the rounds, never rounded up."""

from __future__ import annotations

import pytest

from benchmarks.results import Flood, Memory, Results, compare
from benchmarks.targets import TargetResult, all_targets, cut, judge
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


def test_every_operation_has_a_target_against_each_peer_over_the_same_store_and_cache() -> None:
    texts = [target.text for target in all_targets()]
    assert len(texts) == len(set(texts))
    assert "test detail, times FastAPI, SQLite, Redis" in texts
    assert "test detail, not cached, times FastAPI, Elasticsearch" in texts
    assert "event page 500, of 10, not cached, times Datasette, SQLite" in texts
    # The peers do not cache events.
    assert "event page of 10, times FastAPI, SQLite, Redis" not in texts
