"""Keeps the parts of verdicts that have executions on more than one day. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from indexing.health.rollups import KeptVerdict, Part, SpreadVerdict
from indexing.health.thresholds import WINDOW
from indexing.health.window import day_number


def spread_over(
    spread: SpreadVerdict | None, before: KeptVerdict, here: Part, last_at: int
) -> SpreadVerdict | None:
    """Return the parts of a verdict that gains executions on the newest day of its sequence.

    `spread` and `before` describe the verdict without them; the newest of them finished at
    `last_at`. Returns None if all executions of the verdict are on that day.
    """
    began, ended = day_number(before.first_at), day_number(before.last_at)
    if spread is None:
        if began == here.day:
            return None
        # If it had executions on several days before, those parts are before the window by now.
        whole = began == ended and began > here.day - WINDOW.days
        earlier = (Part(began, before.first_at, before.results),) if whole else ()
        spread = SpreadVerdict(before.commit, began, earlier)
    days: dict[int, Part] = {}
    for part in (*spread.parts, here):
        known = days.get(part.day, part)
        first_at = min(known.first_at, part.first_at)
        days[part.day] = Part(part.day, first_at, known.results | part.results)
    last_at = max(before.last_at, last_at)
    newest = days[here.day]
    again = (newest._replace(first_at=last_at),) if last_at > newest.first_at else ()
    return spread._replace(parts=(*days.values(), *again))


def drop_before(spread: Mapping[str, SpreadVerdict], start: int) -> dict[str, SpreadVerdict]:
    """Leave out the parts before that day, and verdicts that have no other parts."""
    kept: dict[str, SpreadVerdict] = {}
    for commit, verdict in spread.items():
        parts = tuple(part for part in verdict.parts if part.day >= start)
        if parts:
            kept[commit] = verdict._replace(parts=parts)
    return kept
