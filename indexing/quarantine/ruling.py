"""What the rules do to the automatic quarantine of one test: a decision that asks for judgements.

Only the quarantine of every branch is dealt with: the rules make no others. No I/O is done here;
`rule` yields the moments that it needs the test's standing at, and whoever stores it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime

from indexing.quarantine.decision import Standing, explain_quarantine


@dataclass(frozen=True, slots=True)
class Standings:
    """What is known of a test's quarantines of every branch, expired ones ended.

    `judged_until` of the one that stands is the newest finish time that it was decided by, `None`
    for what people made and for decisions that are final. `answered_until` is how far the
    evidence reached that the ends of earlier ones have answered.
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
    """What is to be done, in this order; nothing, where all is empty.

    `reworded` is the reason that now holds for the one that stands. With `takes_back` it ends as
    if it had never been.
    """

    reworded: str | None = None
    takes_back: bool = False
    begins: Beginning | None = None


Deliberation = Generator[datetime, Standing, Ruling]


def rule(
    known: Standings, *, now: datetime, newest: datetime | None, ignore_broken: bool
) -> Deliberation:
    """Quarantine the test where the rules say so, or take back what they should not have said.

    `newest` is when its newest execution on the default branch finished. Each yielded moment is
    to be answered by how the test stands by the executions that had finished by then.
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
            # It was made by results of the future: those that came since belong with them.
            judged_until = max(judged_until, newest)
        reason = explain((yield judged_until))
        if reason is not None:
            return Ruling(reworded=reason)
    # A machine whose clock runs ahead of this one's must not have its results left out.
    until = now if newest is None else max(now, newest)
    reason = explain((yield until))
    begins = None if reason is None else Beginning(reason, until)
    return Ruling(takes_back=known.stands, begins=begins)


def conclude(deliberation: Deliberation, standing_until: Callable[[datetime], Standing]) -> Ruling:
    """Answer a deliberation's questions until it has come to its ruling."""
    try:
        moment = next(deliberation)
        while True:
            moment = deliberation.send(standing_until(moment))
    except StopIteration as done:
        ruling: Ruling = done.value
        return ruling
