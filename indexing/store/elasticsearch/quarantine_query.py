"""Finds quarantines in force, and those among them that cover a branch. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from indexing.models.quarantines import covers_branch
from indexing.timestamps import to_microseconds
from indexing.yielding import LoopYielder

R = TypeVar("R")


def in_force(now: datetime, *clauses: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query for the slots with a quarantine in force at `now` that match all clauses."""
    ended = {"range": {"expires_at": {"lte": to_microseconds(now)}}}
    filters = [*clauses, {"exists": {"field": "quarantine_id"}}]
    return {"bool": {"filter": filters, "must_not": [ended]}}


async def keep_covering(
    rows: Iterable[R], pattern_of: Callable[[R], str | None], branch: str
) -> list[R]:
    """Return the rows whose branch pattern covers the branch; yields to the event loop regularly.

    A repository may have ten thousand patterns, each as expensive as a pattern can be.
    """
    yielder = LoopYielder()
    kept = []
    for row in rows:
        if covers_branch(pattern_of(row), branch):
            kept.append(row)
        await yielder.yield_if_due()
    return kept
