"""Plans a read of the event log: which index it uses, and what is left to check. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from indexing.models.events import EventQuery, Outcome
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.columns import OUTCOME_NUMBERS
from indexing.timestamps import to_microseconds

PULL_REQUEST: Final = "pull_request"
TYPE: Final = "type"
TRIGGER: Final = "triggered_by"
BASE_REF: Final = "base_ref"
OUTCOME: Final = "outcome"

# Each index has its column first and then the order of the log. The columns with the fewest rows
# for each value come first: a pull request has few events, a type some, a branch and an outcome
# many.
INDEXES: Final = {
    PULL_REQUEST: "events_by_pull_request",
    TYPE: "events_by_type",
    TRIGGER: "events_by_trigger",
    BASE_REF: "events_by_base_ref",
    OUTCOME: "events_by_outcome",
}
BY_TIME: Final = "events_by_time"

# A page reads the index once for each value; this limits the number of values.
_MOST_READS: Final = 100

# The first moment of a time range and the first one after it, in microseconds since 1970.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Restriction:
    """A filter of one column: the only allowed values, or the excluded ones."""

    column: str
    values: tuple[Any, ...]
    excluded: bool = False

    @property
    def condition(self) -> str:
        """SQL with one parameter, however many values there are."""
        these = "(SELECT value FROM json_each(?))"
        if not self.excluded:
            return f" AND {self.column} IN {these}"
        return f" AND ({self.column} IS NULL OR {self.column} NOT IN {these})"

    @property
    def parameter(self) -> str:
        """The parameter of `condition`."""
        return json_array(self.values)


@dataclass(frozen=True, slots=True)
class EventPlan:
    """A plan: which index to read, and which filters to check on each row.

    Without a `column`, `index` is read once, in the order of time. Otherwise it is read once for
    each of `values` of the column. `rest` are the filters that the index does not apply.
    """

    index: str
    column: str | None = None
    values: tuple[Any, ...] = ()
    rest: tuple[Restriction, ...] = ()

    @property
    def reads(self) -> list[tuple[Any, ...]]:
        """The parameters of `comparison` for each read of the index."""
        return [()] if self.column is None else [(value,) for value in self.values]

    @property
    def comparison(self) -> str:
        """SQL that compares the column with one value; empty without a column."""
        if self.column is None:
            return ""
        # A trigger may be null, which `=` never finds.
        return f" AND {self.column} {'IS' if self.column == TRIGGER else '='} ?"

    @property
    def condition(self) -> str:
        """SQL for the rest."""
        return "".join(each.condition for each in self.rest)

    @property
    def parameters(self) -> list[str]:
        """The parameters of `condition`."""
        return [each.parameter for each in self.rest]

    @property
    def excluded_column(self) -> str | None:
        """A column with few values whose exclusion may drop most of the rows that are read."""
        if self.column is None:
            for each in self.rest:
                if each.excluded and each.column in (TYPE, TRIGGER):
                    return each.column
        return None

    def by_complement(self, values: Sequence[Any]) -> EventPlan | None:
        """Return the plan that reads the values that are not excluded, one by one.

        `values` are all values of the column in the log. Returns `None` if they are too many.
        """
        column = self.excluded_column
        if column is None or len(values) > _MOST_READS:
            return None
        left_out = {v for each in self.rest if each.column == column for v in each.values}
        return replace(
            self,
            index=INDEXES[column],
            column=column,
            values=tuple(value for value in values if value not in left_out),
            rest=tuple(each for each in self.rest if each.column != column),
        )


def make_plan(query: EventQuery) -> EventPlan:
    """Plan a query: by the filter that leaves the fewest rows, or by time."""
    restrictions = restrictions_of(query)
    for column, index in INDEXES.items():
        for each in restrictions:
            if each.column == column and not each.excluded:
                rest = tuple(other for other in restrictions if other is not each)
                return EventPlan(index, column, each.values, rest)
    return EventPlan(BY_TIME, rest=restrictions)


def find_excluded_column(query: EventQuery) -> str | None:
    """Return the `excluded_column` of the query's plan."""
    if not query.event_types_excluded and not query.triggers_excluded:
        # Most queries: they need no plan for it.
        return None
    return make_plan(query).excluded_column


def span_of(query: EventQuery) -> Span:
    """Return the time range of a query."""
    return to_microseconds(query.received_from), to_microseconds(query.received_to)


def restrictions_of(query: EventQuery) -> tuple[Restriction, ...]:
    """Return the filters of a query."""
    base_refs = () if query.base_ref is None else (query.base_ref,)
    found = [
        *_restrict(PULL_REQUEST, query.pull_requests, query.pull_requests_excluded),
        *_restrict(TYPE, query.event_types, query.event_types_excluded),
        *_restrict(TRIGGER, query.triggers, query.triggers_excluded),
        *_restrict(BASE_REF, base_refs, ()),
    ]
    if query.outcomes or query.outcomes_excluded:
        # There are only four outcomes, so excluding some is the same as allowing the others.
        some = query.outcomes or tuple(Outcome)
        kept = [OUTCOME_NUMBERS[each] for each in some if each not in query.outcomes_excluded]
        found.append(Restriction(OUTCOME, tuple(dict.fromkeys(kept))))
    return tuple(found)


def _restrict(
    column: str, values: Sequence[Any], excluded: Sequence[Any]
) -> tuple[Restriction, ...]:
    if values:
        # A repeated value must not repeat its rows.
        kept = dict.fromkeys(value for value in values if value not in excluded)
        return (Restriction(column, tuple(kept)),)
    return (Restriction(column, tuple(excluded), excluded=True),) if excluded else ()
