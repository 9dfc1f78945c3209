"""The filters of an event query as conditions on fields, and their clauses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from indexing.health.window import DAY_MICROSECONDS
from indexing.models.events import EventQuery
from indexing.store.elasticsearch.event_day_counts import DayCounts
from indexing.store.elasticsearch.event_query import TIME

_MOST_NAMED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter of one field: events with these values match, or all others if `is_negated`."""

    field: str
    values: tuple[Any, ...]
    is_negated: bool

    @property
    def is_one_outcome(self) -> bool:
        """Whether only events with one outcome match."""
        return self.field == "outcome" and not self.is_negated and len(self.values) == 1

    def count_passing(self, day: DayCounts) -> int:
        """Return the number of events of a day that match."""
        counts = day.count_values(self.field)
        named = sum(counts.get(value, 0) for value in self.values)
        return day.total - named if self.is_negated else named

    def clause(self, days: Sequence[DayCounts], *, is_failing: bool = False) -> dict[str, Any]:
        """Return the clause for the events of these days that match, or for all others.

        It names the values to find if they are few. An engine finds those without some values by
        reading all events and leaving some out, which takes several times as long.
        """
        named = {"terms": {self.field: list(self.values)}}
        if self.is_negated == is_failing:
            return named
        known: set[Any] = set()
        missing = 0
        for day in days:
            counts = day.count_values(self.field)
            known |= counts.keys()
            missing += day.total - sum(counts.values())
            if len(known) > _MOST_NAMED:
                return {"bool": {"must_not": [named]}}
        clauses: list[dict[str, Any]] = [{"terms": {self.field: sorted(known - {*self.values})}}]
        if missing:
            clauses.append({"bool": {"must_not": [{"exists": {"field": self.field}}]}})
        return any_of(clauses)


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
        ("pull_request", query.pull_requests, query.pull_requests_excluded),
        ("base_ref", bases, ()),
    ):
        # Without repetitions: each value is counted once.
        if values:
            left = tuple(dict.fromkeys(each for each in values if each not in excluded))
            found.append(Condition(field, left, is_negated=False))
        elif excluded:
            found.append(Condition(field, tuple(dict.fromkeys(excluded)), is_negated=True))
    return found


def any_of(clauses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the clause for what one of these clauses matches."""
    return {"bool": {"should": list(clauses), "minimum_should_match": 1}}


def days_clause(days: Iterable[int]) -> dict[str, Any]:
    """Return the clause for the events of these days."""
    runs: list[list[int]] = []
    for day in sorted(days):
        if runs and runs[-1][1] == day:
            runs[-1][1] = day + 1
        else:
            runs.append([day, day + 1])
    return any_of(
        [
            {"range": {TIME: {"gte": first * DAY_MICROSECONDS, "lt": end * DAY_MICROSECONDS}}}
            for first, end in runs
        ]
    )
