"""What the rules do to the automatic quarantine of one test: a generator of decisions.

It handles only quarantines of every branch: the rules make no others. No I/O: `rule` yields the
moments at which it needs the test's standing, and the store answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime

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


Deliberation = Generator[datetime, Standing, Ruling]


def rule(
    known: Standings, *, now: datetime, newest: datetime | None, ignore_broken: bool
) -> Deliberation:
    """Quarantine the test if the rules say so, or take back a decision that late results refute.

    `newest` is when its newest execution on the default branch finished. For each yielded moment,
    send the test's standing by the executions that had finished by then.
    """

    def explain(standing: Standing) -> str | None:
        return explain_quarantine(
            standing, ignore_broken=ignore_broken, answered_until=known.answered_until
        )

    if known.stands:
        judged_until = known.judged_until
        if judged_until is None:
            return Ruling()
        if newest is not None and judged_until > now:
            # Results dated in the future decided it; results that came since belong with them.
            judged_until = max(judged_until, newest)
        reason = explain((yield judged_until))
        if reason is not None:
            return Ruling(reworded=reason)
    # Include results from a machine whose clock runs ahead of this one's.
    until = now if newest is None else max(now, newest)
    reason = explain((yield until))
    begins = None if reason is None else Beginning(reason, until)
    return Ruling(takes_back=known.stands, begins=begins)


def conclude(deliberation: Deliberation, standing_until: Callable[[datetime], Standing]) -> Ruling:
    """Run a deliberation to its ruling, answering each moment that it yields."""
    try:
        moment = next(deliberation)
        while True:
            moment = deliberation.send(standing_until(moment))
    except StopIteration as done:
        ruling: Ruling = done.value
        return ruling
