"""The rule for sequences that run often, compared with the same rule in its own words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from indexing.health.dense import count_days_to_clear, is_dense, measure
from indexing.health.status import judge_sequence
from indexing.models.tests import HealthStatus
from tests.indexing.health.dense_histories import GOOD, LONE, histories, run, runs, state, state_of


def find_alone(letters: str, before: str = "") -> list[bool]:
    return [verdict.stood_alone for verdict in state([letters], before).newest]


def status(days: Sequence[str]) -> HealthStatus:
    return judge_sequence(state(days), flaky_detection=True)


@pytest.mark.parametrize(
    ("letters", "alone"),
    [
        ("P", "-"),
        ("PF", "--"),
        ("PFP", "-!-"),
        ("FPF", "-!-"),
        ("PFF", "---"),
        ("PFFP", "----"),
        ("PFPFP", "-!!!-"),
        ("FPP", "---"),
        ("PXP", "-!-"),
        # A flaky verdict between two others does not part them.
        ("PXFXP", "-!!!-"),
        ("XF", "!-"),
        ("PFX", "--!"),
    ],
)
def test_a_verdict_stands_alone_between_two_that_agree(letters: str, alone: str) -> None:
    assert find_alone(letters) == [each == "!" for each in alone]


def test_the_verdict_before_the_window_is_a_neighbour() -> None:
    assert find_alone("FP", before="P") == [True, False]
    assert find_alone("XFP", before="P") == [True, True, False]
    assert find_alone("FP", before="F") == [False, False]
    assert find_alone("P", before="F") == [False]
    # A flaky one is none.
    assert find_alone("FP", before="PX") == [True, False]
    assert find_alone("FP", before="X") == [False, False]


@pytest.mark.parametrize(
    ("days", "dense"),
    [
        (["P" * 9], False),
        (["P" * 10], True),
        (["P" * 10, "", "", "P" * 10], True),
        (["P" * 10, "P" * 9], False),
        (["P" * 19, "P"], True),
    ],
)
def test_a_sequence_is_dense_from_ten_verdicts_a_day_on(days: list[str], *, dense: bool) -> None:
    assert is_dense(state(days)) is dense


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        # Three days on which a result stood alone; two are not enough, however often it did.
        ([LONE, GOOD, GOOD, LONE, GOOD, GOOD, LONE, GOOD, GOOD], "flaky"),
        ([LONE, GOOD, GOOD, LONE, GOOD, GOOD, GOOD, GOOD, GOOD], "healthy"),
        ([GOOD, "PFPFPFPFPFPP", GOOD, "PFPXXFPFPFPP", GOOD, GOOD, GOOD], "healthy"),
        # Two of them among the newest 20 verdicts.
        ([GOOD, LONE, LONE], "flaky"),
        ([GOOD, "FPPPPPPPPP", "FPPPPPPPPP"], "flaky"),
        ([GOOD, "FPPPPPPPPP", "FPPPPPPPPPP"], "healthy"),
        # Regressions that are mended stand in rows.
        (["PPFFFFPPPP", GOOD, "PPFFFFPPPP", GOOD, "PPFFFFPPPP", GOOD], "healthy"),
        # Broken is tested first.
        ([LONE, LONE, LONE, "PPPPPPPFFF"], "broken"),
        # The last one is known to stand alone once a later verdict is there.
        ([LONE, GOOD, GOOD, LONE, GOOD, GOOD, "PPPPPPPPPF"], "healthy"),
        ([LONE, GOOD, GOOD, LONE, GOOD, GOOD, "PPPPPPPPPF", "P" * 10], "flaky"),
    ],
)
def test_days_count_and_not_results(days: list[str], expected: str) -> None:
    assert status(days) == expected


def test_off_it_is_never_flaky() -> None:
    found = judge_sequence(state([LONE] * 3), flaky_detection=False)
    assert found is HealthStatus.HEALTHY


def test_it_is_mended_after_five_times_the_days_between_two_of_them() -> None:
    # On 3 of 4 days until the last: no failure on 7 days, as 5 * 4 / 3 is 6.7.
    flaky = [LONE, LONE, GOOD, LONE]
    assert status([*flaky, *[GOOD] * 6]) is HealthStatus.FLAKY
    assert status([*flaky, *[GOOD] * 7]) is HealthStatus.HEALTHY
    # Days without a verdict are no days.
    assert status([*flaky, *[""] * 3, *[GOOD] * 6]) is HealthStatus.FLAKY
    # A regression is no sign of flakiness, but it begins the count again.
    assert status([*flaky, *[GOOD] * 5, "PPFFPPPPPP", GOOD]) is HealthStatus.FLAKY


def judge_by_the_words(days: Sequence[str], before: str) -> bool:
    """Whether a dense sequence is flaky, without regard to broken: the rule, word by word."""
    verdicts = [(number, letter) for number, letters in enumerate(days) for letter in letters]
    clean = [i for i, (_, letter) in enumerate(verdicts) if letter != "X"]
    alone = {i for i, (_, letter) in enumerate(verdicts) if letter == "X"}
    row = [(-1, before), *((i, verdicts[i][1]) for i in clean)]
    for (_, left), (i, own), (_, right) in zip(row, row[1:], row[2:], strict=False):
        if left == right != own:
            alone.add(i)
    of_events = {verdicts[i][0] for i in alone}
    near = {verdicts[i][0] for i in alone if i >= len(verdicts) - 20}
    with_verdict = {number for number, _ in verdicts}
    bad = [number for number, letter in verdicts if letter != "P"]
    if not (len(of_events) >= 3 or len(near) >= 2):
        return False
    active = len([each for each in with_verdict if each <= max(of_events)])
    quiet = len([each for each in with_verdict if each > max(bad)])
    return quiet < 5 * active / len(of_events)


@settings(max_examples=400)
@given(histories, st.sampled_from("PF"))
def test_it_is_the_rule_in_its_own_words(days: list[str], before: str) -> None:
    assume(any(days))
    found = state(days, before)
    assert measure(found).is_flaky == judge_by_the_words(days, before)


@settings(max_examples=200)
@given(histories)
def test_a_mend_takes_as_many_days_as_it_says(days: list[str]) -> None:
    assume(any(days))
    executions = runs(days)
    found = state_of(executions)
    recurrence = measure(found)
    assume(recurrence.is_flaky)
    newest = max(day for day, letters in enumerate(days) if letters)
    flaky = []
    for today in range(newest, newest + count_days_to_clear(found) + 1):
        flaky.append(measure(state_of(executions, today - 29)).is_flaky)
        executions += [run("P", today + 1, minute) for minute in range(10)]
    assert not flaky[-1]
    # Where two days of the newest 20 verdicts make it flaky, it may take a day less.
    assert all(flaky[: -2 if recurrence.near > 0 else -1])


def test_a_newest_failure_counts_as_the_lone_result_that_the_next_pass_makes_it() -> None:
    days = [LONE, LONE, *[GOOD] * 5, LONE, "PPPPPPPPPF"]
    found = state(days)
    assert measure(found).alone == measure(state([*days, GOOD])).alone[:-1]
    # 5 * 9 / 4 for the four days then; for the three until now it was 5 * 8 / 3.
    assert count_days_to_clear(found) == 12
