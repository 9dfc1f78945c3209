"""Histories of a test that runs often: a day is a text with a letter for each execution."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import strategies as st

from indexing.health.merging import build_rollup
from indexing.health.observations import Observation
from indexing.health.sequences import SequenceState
from indexing.health.window import day_of
from indexing.models.executions import Conclusion
from indexing.models.tests import TestMetadata
from indexing.timestamps import to_microseconds
from tests.builders import after

# The first moment of a UTC day.
MIDNIGHT = after(days=-0.5)

GOOD = "P" * 10
LONE = "PPPPFPPPPP"

day = st.text("PPPPPPPPFX", max_size=30) | st.sampled_from(["", GOOD, LONE])
histories = st.lists(day, min_size=1, max_size=30)


def run(letter: str, day: int, minute: int = 0) -> Observation:
    """The only execution of a commit: it passed (P), failed (F), or passed after retries (X)."""
    return Observation(
        pipeline_name="ci",
        job_name="unit",
        commit=f"{day}-{minute}",
        conclusion=Conclusion.FAILED if letter == "F" else Conclusion.PASSED,
        at=to_microseconds(MIDNIGHT + timedelta(days=day, minutes=minute)),
        needed_retries=letter == "X",
        infrastructure_failure=False,
        pull=None,
        metadata=TestMetadata(),
    )


def runs(days: Sequence[str]) -> list[Observation]:
    """The executions of each day, oldest first; a day without letters has none."""
    return [
        run(letter, day, minute)
        for day, letters in enumerate(days)
        for minute, letter in enumerate(letters)
    ]


def state_of(executions: Sequence[Observation], first_day: int = 0) -> SequenceState:
    """The state of what was executed from that day on, as a roll-up keeps it."""
    rollup, *_ = build_rollup(executions)
    assert rollup is not None
    found = rollup.sequence_since(day_of(MIDNIGHT) + first_day)
    assert found is not None
    return found


def state(days: Sequence[str], before: str = "") -> SequenceState:
    """The state of these days; `before` has one letter for each day before them."""
    return state_of([*(run(each, i - len(before)) for i, each in enumerate(before)), *runs(days)])
