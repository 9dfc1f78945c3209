"""Decides what happens to the automatic quarantine of one test, as a generator.

It handles only quarantines of every branch: the rules make no others. No I/O: `rule` yields the
moments at which it needs the test's standing, and the store answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from indexing.health.window import day_of, end_of_day
from indexing.models.repositories import Repository
from indexing.quarantine.decision import Standing, explain_quarantine


@dataclass(frozen=True, slots=True)
class Standings:
    """A test's quarantines of every branch, with expired ones ended.

    `judged_until` of the current one is the newest finish time behind its decision; it is `None`
    for quarantines made by people and for final decisions. `answered_until` is the newest evidence
    that the ends of earlier quarantines have answered.
    """

    stands: bool
    judged_until: datetime | None
    answered_until: datetime | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """A new automatic quarantine."""

    reason: str
    judged_until: datetime


@dataclass(frozen=True, slots=True)
class Ruling:
    """The changes to make, in this order; none if all fields are empty.

    `reworded` is the new reason of the current quarantine. With `takes_back`, the quarantine ends
    as if it had never existed.
    """

    reworded: str | None = None
    takes_back: bool = False
    begins: Beginning | None = None


# A store of an earlier release may hold results of the first year.
_FIRST_DAY: Final = day_of(datetime.min.replace(tzinfo=UTC))

Deliberation = Generator[datetime, Standing, Ruling]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The settings of a repository that rulings depend on.

    `quarantine_after`: for how many days a test must have been flaky or broken.
    """

    ignore_broken: bool = False
    quarantine_after: int = 0

    @classmethod
    def of(cls, repository: Repository) -> Conditions:
        return cls(repository.ignore_broken_on_default_branch, repository.quarantine_after)


def rule(
    known: Standings, *, now: datetime, newest: datetime | None, conditions: Conditions
) -> Deliberation:
    """Quarantine the test if the rules say so, or take back a decision that late results refute.

    `newest` is when its newest execution on the default branch finished. For each yielded moment,
    send the test's standing by the executions that had finished by then.
    """

    def explain(moment: datetime) -> Generator[datetime, Standing, str | None]:
        standing = yield moment
        reason = explain_quarantine(
            standing, ignore_broken=conditions.ignore_broken, answered_until=known.answered_until
        )
        if reason is None or (yield from _has_lasted(standing, conditions.quarantine_after)):
            return reason
        return None

    if known.stands:
        judged_until = known.judged_until
        if judged_until is None:
            return Ruling()
        if newest is not None and judged_until > now:
            # Results dated in the future decided it; results that came since belong with them.
            judged_until = max(judged_until, newest)
        reason = yield from explain(judged_until)
        if reason is not None:
            return Ruling(reworded=reason)
    # Include results from a machine whose clock runs ahead of this one's.
    until = now if newest is None else max(now, newest)
    reason = yield from explain(until)
    begins = None if reason is None else Beginning(reason, until)
    return Ruling(takes_back=known.stands, begins=begins)


def _has_lasted(standing: Standing, days: int) -> Generator[datetime, Standing, bool]:
    """Return whether the test was flaky or broken at the end of each of so many UTC days before.

    The days before that of its newest execution. Days without an execution changed nothing, so they
    are not asked for.
    """
    if days == 0:
        return True
    if standing.newest_at is None:
        return False
    today = day_of(standing.newest_at)
    if today - days < _FIRST_DAY:
        return False
    # A test that only just became flaky is refused by the first question.
    earliest = yield end_of_day(today - days)
    if not earliest.is_untrusted:
        return False
    asked = today - 1
    while asked > today - days:
        older = yield end_of_day(asked)
        if not older.is_untrusted or older.newest_at is None:
            return False
        asked = min(asked, day_of(older.newest_at)) - 1
    return True


def conclude(deliberation: Deliberation, standing_until: Callable[[datetime], Standing]) -> Ruling:
    """Run a deliberation to its ruling, answering each moment that it yields."""
    try:
        moment = next(deliberation)
        while True:
            moment = deliberation.send(standing_until(moment))
    except StopIteration as done:
        ruling: Ruling = done.value
        return ruling
