"""When the daily run of retention begins, by the record of the last one."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from indexing.pruning import (
    ABANDONED_AFTER,
    NextStep,
    PruneRun,
    find_due,
    from_record,
    next_step,
    to_record,
)

AT = time(3, 17)
DUE = datetime(2026, 11, 22, 3, 17, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LONG_AGO = DUE - 10 * DAY


def step(last: PruneRun | None, now: datetime, watching_since: datetime = LONG_AGO) -> NextStep:
    return next_step(last, find_due(AT, now), now, watching_since)


def begun(moment: datetime) -> PruneRun:
    return PruneRun("a", began_at=moment, alive_at=moment)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        (DUE, DUE),
        (DUE - timedelta(microseconds=1), DUE - DAY),
        (DUE + 20 * HOUR, DUE),
        (DUE + DAY - MINUTE, DUE),
    ],
)
def test_a_run_is_due_at_its_time_of_day(now: datetime, due: datetime) -> None:
    assert find_due(AT, now) == due


def test_a_day_has_one_run() -> None:
    assert step(begun(DUE).ended(DUE + HOUR, 1, 2), DUE + HOUR) is NextStep.REST
    ended = begun(DUE + MINUTE).ended(DUE + HOUR, 1, 2)
    assert step(ended, DUE + HOUR) is NextStep.REST
    assert step(ended, DUE + DAY - MINUTE) is NextStep.REST
    assert step(ended, DUE + DAY) is NextStep.BEGIN


def test_a_run_that_began_before_its_time_is_not_that_of_the_day() -> None:
    ended = begun(DUE - MINUTE).ended(DUE + MINUTE, 1, 2)
    assert step(ended, DUE + HOUR) is NextStep.BEGIN


def test_a_missed_run_is_done_later() -> None:
    ended = begun(DUE - 3 * DAY).ended(DUE - 3 * DAY, 1, 2)
    assert step(ended, DUE + 10 * HOUR) is NextStep.BEGIN


def test_a_store_without_a_record_waits_for_the_time_of_day() -> None:
    began = DUE + HOUR
    assert step(None, began, watching_since=began) is NextStep.REST
    assert step(None, DUE + DAY - MINUTE, watching_since=began) is NextStep.REST
    assert step(None, DUE + DAY, watching_since=began) is NextStep.BEGIN
    assert step(None, DUE + MINUTE, watching_since=DUE) is NextStep.BEGIN


def test_a_run_that_is_alive_is_left_alone() -> None:
    run = begun(DUE)
    for _ in range(40):
        run = run.renewed((run.alive_at or DUE) + MINUTE)
    assert step(run, DUE + 41 * MINUTE) is NextStep.WATCH
    # Even on the next day.
    assert step(run.renewed(DUE + DAY), DUE + DAY + MINUTE) is NextStep.WATCH


def test_a_run_that_seems_alive_long_from_now_is_not() -> None:
    assert step(begun(DUE + ABANDONED_AFTER - MINUTE), DUE) is NextStep.WATCH
    assert step(begun(DUE + ABANDONED_AFTER), DUE) is NextStep.BEGIN


def test_a_killed_run_is_resumed_within_an_hour() -> None:
    assert step(begun(DUE), DUE + ABANDONED_AFTER - MINUTE) is NextStep.WATCH
    assert step(begun(DUE), DUE + ABANDONED_AFTER) is NextStep.BEGIN
    assert ABANDONED_AFTER <= HOUR


def test_a_stopped_run_is_resumed_at_once() -> None:
    assert step(begun(DUE).stopped(), DUE + MINUTE) is NextStep.BEGIN


def test_a_run_that_ended_cannot_be_stopped() -> None:
    ended = begun(DUE).ended(DUE + MINUTE, 1, 2)
    assert ended.stopped() == ended


def test_a_record_of_a_wrong_clock_holds_nothing_up() -> None:
    ahead = begun(DUE + 300 * DAY)
    for record in (ahead, ahead.ended(DUE + 300 * DAY, 0, 0)):
        assert step(record, DUE + MINUTE) is NextStep.BEGIN


def test_a_record_survives_being_stored() -> None:
    for run in (begun(DUE), begun(DUE).stopped(), begun(DUE).ended(DUE + MINUTE, 5, 7)):
        assert from_record(to_record(run)) == run
