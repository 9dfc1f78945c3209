"""Decides what happens to the automatic quarantine of one test, as a generator.

It handles only quarantines of every branch: the rules make no others. No I/O: `decide_update`
yields the moments at which it needs the test's state, and the store sends the state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.health.window import day_of, end_of_day
from indexing.models.repositories import Repository
from indexing.quarantine.decision import JudgedState, explain_quarantine
from indexing.timestamps import EARLIEST

# A store of an earlier release may hold results of the first year.
_FIRST_DAY: Final = day_of(EARLIEST)


@dataclass(frozen=True, slots=True)
class QuarantineState:
    """A test's quarantines of every branch, with expired ones ended.

    `judged_until` of the current one is the newest finish time behind its decision; it is `None`
    for quarantines made by people and for final decisions. `answered_until` is the newest evidence
    that the ends of earlier quarantines have answered.
    """

    is_in_force: bool
    judged_until: datetime | None
    answered_until: datetime | None


@dataclass(frozen=True, slots=True)
class NewQuarantine:
    """A new automatic quarantine."""

    reason: str
    judged_until: datetime


@dataclass(frozen=True, slots=True)
class QuarantineUpdate:
    """The changes to make, in this order; none if all fields are empty.

    `reason` is the new reason of the current quarantine. With `withdraw`, that quarantine ends as
    if it had never existed. `new` is a quarantine to begin.
    """

    reason: str | None = None
    withdraw: bool = False
    new: NewQuarantine | None = None


UpdateSteps = Generator[datetime, JudgedState, QuarantineUpdate]


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The settings of a repository that the rules depend on.

    `quarantine_after`: for how many days a test must have been flaky or broken.
    """

    ignore_broken: bool = False
    quarantine_after: int = 0

    @classmethod
    def of(cls, repository: Repository) -> RuleSettings:
        return cls(repository.ignore_broken_on_default_branch, repository.quarantine_after)


def is_settled(judged_until: int | None, created_at: int, unchanged_until: int | None) -> bool:
    """Return whether nothing has changed that the decision for a quarantine was based on.

    `judged_until` is as in `QuarantineState`; `created_at` is when the quarantine began. No
    execution that finished before `unchanged_until` has changed since the decision; it is `None` if
    any may have changed. Times are in microseconds since 1970.
    """
    return (
        judged_until is not None
        # A decision based on results dated in the future must also consider results that came in
        # later.
        and judged_until <= created_at
        and unchanged_until is not None
        and unchanged_until > judged_until
    )


def decide_update(
    known: QuarantineState, *, now: datetime, newest: datetime | None, settings: RuleSettings
) -> UpdateSteps:
    """Quarantine the test if the rules say so; withdraw a quarantine that late results refute.

    `newest` is when its newest execution on the default branch finished. For each yielded moment,
    send the test's state by the executions that had finished by then.
    """

    def explain(moment: datetime) -> Generator[datetime, JudgedState, str | None]:
        state = yield moment
        reason = explain_quarantine(
            state, ignore_broken=settings.ignore_broken, answered_until=known.answered_until
        )
        if reason is None or (yield from _has_lasted(state, settings.quarantine_after)):
            return reason
        return None

    if known.is_in_force:
        judged_until = known.judged_until
        if judged_until is None:
            return QuarantineUpdate()
        if newest is not None and judged_until > now:
            # Results dated in the future decided it; results that came since belong with them.
            judged_until = max(judged_until, newest)
        reason = yield from explain(judged_until)
        if reason is not None:
            return QuarantineUpdate(reason=reason)
    # Include results from a machine whose clock runs ahead of this one's.
    until = now if newest is None else max(now, newest)
    reason = yield from explain(until)
    new = None if reason is None else NewQuarantine(reason, until)
    return QuarantineUpdate(withdraw=known.is_in_force, new=new)


def _has_lasted(state: JudgedState, days: int) -> Generator[datetime, JudgedState, bool]:
    """Return whether the test was flaky or broken at the end of each of so many UTC days before.

    These are the days before that of its newest execution.
    """
    if days == 0:
        return True
    if state.newest_at is None:
        return False
    today = day_of(state.newest_at)
    if today - days < _FIRST_DAY:
        return False
    # In ascending order, in which earlier states are computed with one merge of the executions.
    for day in range(today - days, today):
        older = yield end_of_day(day)
        if not older.is_untrusted:
            return False
    return True


def run_steps(
    steps: UpdateSteps, state_until: Callable[[datetime], JudgedState]
) -> QuarantineUpdate:
    """Return the update, sending the state at each moment that the steps yield."""
    try:
        moment = next(steps)
        while True:
            moment = steps.send(state_until(moment))
    except StopIteration as done:
        update: QuarantineUpdate = done.value
        return update
