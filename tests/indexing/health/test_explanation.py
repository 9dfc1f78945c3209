"""The sentences that say why a sequence has its status."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.health.explanation import Rule, explain
from indexing.health.sequences import SequenceState
from indexing.health.status import judge_sequence
from indexing.health.thresholds import FLAKY_SPAN
from indexing.models.tests import HealthStatus
from tests.indexing.health.dense_histories import GOOD, LONE, histories, state

BOUND = 300


def said(found: SequenceState | None, **about: bool) -> tuple[str, str]:
    explanation = explain(found, **{"flaky_detection": True} | about)
    return explanation.rule.value, explanation.sentence


@pytest.mark.parametrize(
    ("days", "rule", "sentence"),
    [
        (["P", "FFF"], "failing_now", "Broken: its newest 3 verdicts failed."),
        (["F"], "failing_now", "Broken: 1 verdict in the last 30 days, and none passed."),
        (["FF"], "failing_now", "Broken: 2 verdicts in the last 30 days, and none passed."),
        (
            ["PFFF", "FFFFPFF"],
            "failing_mostly",
            "Broken: its newest verdict failed, and so did 9 of the newest 10.",
        ),
        (
            ["FFF", "FFFFPF"],
            "failing_mostly",
            "Broken: its newest verdict failed, and so did 8 of the newest 9.",
        ),
        (
            ["PX", "PP"],
            "flaky_verdict",
            "Flaky: on 1 of 4 commits in the last 30 days it both failed and passed.",
        ),
        (
            ["PF", "PF", "P"],
            "repeated_falls",
            (
                "Flaky: 2 falls in the newest 5 verdicts: it passed on one commit and failed on the"
                " next."
            ),
        ),
        (
            [LONE, GOOD, LONE, GOOD, GOOD, LONE, GOOD],
            "lone_results",
            (
                "Flaky: on 3 of the last 30 days, the last on 6 September, its result stood alone:"
                " it failed between two passes, passed between two failures, or did both on one"
                " commit. 9 days without a failure will clear it."
            ),
        ),
        (
            ["PF", "P"],
            "steady",
            (
                "Healthy: 2 of 3 verdicts in the last 30 days passed, with 1 fall in the newest 3"
                " verdicts; 2 would make it flaky."
            ),
        ),
        (
            ["P" * 15] * 10,
            "steady",
            "150 passes in a row: a failure rate under 2 % cannot be seen yet.",
        ),
        (
            ["P" * 200] * 7,
            "steady",
            "1400 passes in a row: a failure rate under 0.21 % cannot be seen yet.",
        ),
        (
            [LONE, GOOD, "PPPPPPFPPP"],
            "steady",
            (
                "Healthy: it failed lately, but its result stood alone on 2 of the last 30 days;"
                " 3 would make it flaky."
            ),
        ),
        (
            # Mended on days with a single verdict each, so there are few passes in a row.
            [*["P" * 24 + "F"] * 3, *["P"] * 5],
            "steady",
            (
                "Healthy: its result stood alone on 3 of the last 30 days, but 5 days without a"
                " failure cleared it."
            ),
        ),
    ],
)
def test_every_rule_has_a_sentence_with_its_numbers(
    days: list[str], rule: str, sentence: str
) -> None:
    assert said(state(days)) == (rule, sentence)


def test_a_sequence_that_is_not_judged_says_why() -> None:
    assert said(None) == ("no_evidence", "Unknown: no passed or failed result in the last 30 days.")
    assert said(state([GOOD]), is_live=False) == (
        "not_live",
        (
            "Not judged: its newest verdict is more than 8 days older than the test's newest"
            " execution."
        ),
    )
    assert said(state(["PX"]), flaky_detection=False) == (
        "detection_off",
        "Healthy: its results are those of a flaky test, but flaky detection is off.",
    )
    assert said(state(["PFFF"]), flaky_detection=False)[0] == "failing_now"


_RULES = {
    HealthStatus.BROKEN: {Rule.FAILING_NOW, Rule.FAILING_MOSTLY},
    HealthStatus.FLAKY: {Rule.FLAKY_VERDICT, Rule.REPEATED_FALLS, Rule.LONE_RESULTS},
    HealthStatus.HEALTHY: {Rule.STEADY, Rule.DETECTION_OFF},
}


@given(histories.filter(any), st.booleans())
def test_the_explanation_fits_the_status(days: Sequence[str], detection: bool) -> None:
    found = state(days)
    explanation = explain(found, flaky_detection=detection)
    assert explanation.rule in _RULES[judge_sequence(found, flaky_detection=detection)]
    assert len(explanation.sentence) < BOUND
    assert len(found.newest) <= FLAKY_SPAN
