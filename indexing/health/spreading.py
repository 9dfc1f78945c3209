"""Keeps the parts of verdicts that have executions on more than one day. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from indexing.health.rollups import KeptVerdict, Part, SpreadVerdict
from indexing.health.thresholds import WINDOW
from indexing.health.window import day_number


def spread_over(
    spread: SpreadVerdict | None, before: KeptVerdict, here: Part
) -> SpreadVerdict | None:
    """Return the parts of a verdict that gains executions on the newest day of its sequence.

    `spread` and `before` describe the verdict without them. Returns None if all of its executions
    are on that day.
    """
    began, ended = day_number(before.first_at), day_number(before.last_at)
    if spread is None:
        if began == here.day:
            return None
        # If it had executions on several days before, those parts are before the window by now.
        whole = began == ended and began > here.day - WINDOW.days
        parts = (Part(began, before.first_at, before.results),) if whole else ()
        spread = SpreadVerdict(before.commit, began, parts)
    earlier = spread.parts
    if earlier and earlier[-1].day == here.day:
        last = earlier[-1]
        here = Part(here.day, min(last.first_at, here.first_at), last.results | here.results)
        earlier = earlier[:-1]
    return spread._replace(parts=(*earlier, here))


def drop_before(spread: Mapping[str, SpreadVerdict], start: int) -> dict[str, SpreadVerdict]:
    """Leave out the parts before that day, and verdicts that have no other parts."""
    kept: dict[str, SpreadVerdict] = {}
    for commit, verdict in spread.items():
        parts = tuple(part for part in verdict.parts if part.day >= start)
        if parts:
            kept[commit] = verdict._replace(parts=parts)
    return kept
