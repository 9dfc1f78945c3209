"""The rule for sequences that run often, compared with the same rule in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from indexing.health.dense import is_dense, measure
from indexing.health.sequences import SequenceState, find_alone, summarise
from indexing.health.status import judge_sequence
from indexing.health.verdicts import Outcome, Verdict
from indexing.models.tests import HealthStatus
from tests.builders import after

OUTCOMES = {"P": Outcome.PASSED, "F": Outcome.FAILED, "X": Outcome.FLAKY}


def sequence(days: Sequence[str]) -> list[Verdict]:
    """The verdicts of each day, oldest first; a day without letters has none."""
    return [
        Verdict(at, at, f"c{day}-{index}", OUTCOMES[letter])
        for day, letters in enumerate(days)
        for index, letter in enumerate(letters)
        for at in [after(days=day - 0.5, minutes=index)]
    ]


def state(days: Sequence[str], before: Outcome | None = None) -> SequenceState:
    return summarise(sequence(days), before)


def status(days: Sequence[str]) -> HealthStatus:
    return judge_sequence(state(days), flaky_detection=True)


GOOD = "P" * 10
LONE = "PPPPFPPPPP"


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
    assert find_alone([OUTCOMES[letter] for letter in letters]) == [each == "!" for each in alone]


def test_the_verdict_before_the_window_is_a_neighbour() -> None:
    assert find_alone([Outcome.FAILED, Outcome.PASSED], Outcome.PASSED) == [True, False]
    assert find_alone([Outcome.FLAKY, Outcome.FAILED, Outcome.PASSED], Outcome.PASSED) == [
        True,
        True,
        False,
    ]
    assert find_alone([Outcome.FAILED, Outcome.PASSED], Outcome.FAILED) == [False, False]
    assert find_alone([Outcome.PASSED], Outcome.FAILED) == [False]


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


day = st.text("PPPPPPPPFX", max_size=30) | st.sampled_from(["", GOOD, LONE])
histories = st.lists(day, min_size=1, max_size=30)


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
    found = state(days, OUTCOMES[before])
    assert measure(found).is_flaky == judge_by_the_words(days, before)


@settings(max_examples=200)
@given(histories)
def test_a_mend_takes_as_many_days_as_it_says(days: list[str]) -> None:
    assume(any(days))
    # A last failure that nothing followed yet may still turn out to stand alone.
    verdicts = sequence([*days, "PP"])
    recurrence = measure(summarise(verdicts))
    assume(recurrence.is_flaky)
    flaky = []
    for _ in range(recurrence.days_to_clear + 1):
        start = verdicts[-1].first_at.date() - timedelta(days=29)
        older = [each.outcome for each in verdicts if each.first_at.date() < start]
        clean = [each for each in older if each is not Outcome.FLAKY]
        window = [each for each in verdicts if each.first_at.date() >= start]
        flaky.append(measure(summarise(window, clean[-1] if clean else None)).is_flaky)
        tomorrow = verdicts[-1].first_at.replace(hour=0, minute=0) + timedelta(days=1)
        verdicts += [Verdict(tomorrow, tomorrow, "more", Outcome.PASSED)] * 10
    assert not flaky[-1]
    # Where two days of the newest 20 verdicts make it flaky, it may take a day less.
    assert all(flaky[: -2 if recurrence.near > 1 else -1])
