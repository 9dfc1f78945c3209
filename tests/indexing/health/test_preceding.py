"""The result before the window: what is read for it is all that matters."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.health.observations import Observation
from indexing.health.preceding import find_open_jobs
from indexing.health.rules import judge
from indexing.health.window import day_of, first_day
from indexing.models.tests import HealthStatus
from tests.builders import after
from tests.indexing.health.test_rules import SMOKE, UNIT, seen

DENSE = "PPPPPPPPPP"


def runs(letters: str, day: int, job: tuple[str, str] = UNIT) -> list[Observation]:
    """One commit every ten minutes from noon on; `X` is a commit that flaked."""
    return [
        seen(each, after(days=day, minutes=10 * index), commit=f"{day} {index}", job=job)
        for index, letter in enumerate(letters)
        for each in ("PF" if letter == "X" else letter)
    ]


def test_only_a_job_that_runs_often_and_begins_with_a_change_is_read_further() -> None:
    assert find_open_jobs([]) == frozenset()
    assert find_open_jobs(runs(DENSE, 0)) == frozenset()
    assert find_open_jobs(runs("PPF" + DENSE, 0)) == frozenset()
    assert find_open_jobs(runs("FPPPPPPP", 0)) == frozenset()
    assert find_open_jobs(runs("F" + DENSE, 0)) == {UNIT}
    assert find_open_jobs([*runs("PXF" + DENSE, 0), *runs("XFP" + DENSE, 1, SMOKE)]) == {
        UNIT,
        SMOKE,
    }


def test_a_commit_that_ran_before_the_window_too_does_not_stand_alone_in_it() -> None:
    days = [*runs("F" + DENSE, 0), *runs("PF" + DENSE, 1), *runs("PF" + DENSE, 29)]
    before = [seen("P", after(days=-2), commit="older")]
    rerun = [seen("P", after(days=-1), commit="0 0")]
    statuses = [
        judge(found, flaky_detection=True).health.health_status
        for found in (days, [*days, *rerun], [*days, *before], [*days, *before, *rerun])
    ]
    healthy, flaky = HealthStatus.HEALTHY, HealthStatus.FLAKY
    assert statuses == [healthy, healthy, flaky, healthy]


letters = st.text("PPPPPPPPFX", max_size=14) | st.sampled_from([DENSE, f"F{DENSE}", f"PF{DENSE}"])
histories = st.lists(
    st.tuples(st.integers(0, 45), letters, st.sampled_from([UNIT, SMOKE])),
    min_size=1,
    max_size=12,
    unique_by=lambda each: (each[0], each[2]),
)


@settings(max_examples=300)
@given(histories)
def test_what_is_read_decides_as_everything_does(
    days: list[tuple[int, str, tuple[str, str]]],
) -> None:
    everything = [each for day, letters, job in days for each in runs(letters, day, job)]
    start = max((first_day(each.finished_at) for each in everything), default=0)
    window = [each for each in everything if day_of(each.finished_at) >= start]
    jobs = find_open_jobs(window)
    read = [
        each for each in everything if each in window or (each.pipeline_name, each.job_name) in jobs
    ]
    whole, part = (judge(found, flaky_detection=True) for found in (everything, read))
    assert whole.health.health_status == part.health.health_status
    assert whole.explanation == part.explanation
