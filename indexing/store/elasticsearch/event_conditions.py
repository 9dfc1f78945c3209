"""The filters of an event query as conditions on fields. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from indexing.models.events import EventQuery

PULL_REQUEST: Final = "pull_request"


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter of one field: events with these values match, or all others if `is_negated`."""

    field: str
    values: frozenset[Any]
    is_negated: bool

    def holds(self, value: Any) -> bool:
        """Return whether an event with this value matches, or without one if it is `None`."""
        return (value in self.values) != self.is_negated


def conditions_of(query: EventQuery) -> list[Condition]:
    """Return the filters of a query; an event matches if it matches each of them."""
    found = []
    bases = () if query.base_ref is None else (query.base_ref,)
    outcomes = tuple(each.value for each in query.outcomes)
    outcomes_excluded = tuple(each.value for each in query.outcomes_excluded)
    for field, values, excluded in (
        ("type", query.event_types, query.event_types_excluded),
        ("outcome", outcomes, outcomes_excluded),
        ("trigger", query.triggers, query.triggers_excluded),
        (PULL_REQUEST, query.pull_requests, query.pull_requests_excluded),
        ("base_ref", bases, ()),
    ):
        if values:
            left = frozenset(each for each in values if each not in excluded)
            found.append(Condition(field, left, is_negated=False))
        elif excluded:
            found.append(Condition(field, frozenset(excluded), is_negated=True))
    return found
