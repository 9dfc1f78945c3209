"""Counts the filtered events of whole days from the stored counts of single values.

The stored counts of a value answer a filter by this value, or by all others: they are subtracted
from those of all events. The counts of a value among the events with one outcome are stored too: so
an outcome and another filter are answered in the same way. Of further filters, the most selective
one is. Then the cluster counts the events that match it and fail another one, and these are
subtracted. It also counts rare values, whose counts are not stored.

Everything is subtracted from counts of the same events: the number of all events is compared
before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from indexing.models.events import EventQuery
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.event_conditions import (
    Condition,
    any_of,
    conditions_of,
    days_clause,
)
from indexing.store.elasticsearch.event_day_counts import DayCounts, Value, outcome_clauses
from indexing.store.elasticsearch.event_days import count_search, read_stored
from indexing.store.elasticsearch.event_query import (
    FACETS,
    MOST_VALUES,
    count_facets,
    every_of,
    holds_only,
    make_query,
)
from indexing.store.elasticsearch.event_sums import EventSums
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.yielding import LoopYielder

# A value is stored if at least one of so many events of the day has it, and the day is not small.
_SHARE: Final = 64
_SMALL_DAY: Final = 1_000
# The most documents to read for one query.
_MOST_READ: Final = 240
# Reading them costs a node as much as counting so many events.
_READING: Final = 50_000


@dataclass(slots=True)
class _Found:
    """The stored counts for one condition, and the values that have none, by day."""

    stored: list[DayCounts] = field(default_factory=list)
    rare: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    # The number of events with the rare values.
    count: int = 0


def frequent_values(counts: DayCounts, name: str) -> list[Value]:
    """Return the values of a field whose counts are stored for these events of a day."""
    outcome = _outcome_of(counts)
    by_value = counts.count_values(name)
    return [Value(name, v, outcome) for v, n in by_value.items() if is_frequent(n, counts)]


def is_frequent(count: int, counts: DayCounts) -> bool:
    """Return whether the counts of a value with so many events are stored for its day."""
    return counts.of >= _SMALL_DAY and count * _SHARE >= counts.of


def _outcome_of(counts: DayCounts) -> str | None:
    return None if counts.value is None else counts.value.value


async def add_matching(
    cluster: Cluster,
    query: EventQuery,
    days: Sequence[DayCounts],
    total: int,
    retention: Retention,
    sums: EventSums,
) -> bool:
    """Add the counts of the matching events of these days to `sums`.

    `total` is the number of all events in the range of the query. Returns false, and adds nothing,
    if counting them one by one is cheaper or the log has changed since the days were read.
    """
    conditions = conditions_of(query)
    conditions, days = await _within_outcome(cluster, query, conditions, days)
    passing = await _count_passing(conditions, days)
    base, *others = sorted(passing, key=passing.__getitem__)
    every = sum(day.total for day in days) or 1
    expected = float(passing[base])
    for each in others:
        expected *= passing[each] / every
    found = await _find(cluster, query, base, days)
    if found.count + passing[base] - expected + _READING > expected:
        return False
    sign = -1 if base.is_negated else 1
    clauses = []
    if found.rare:
        rare = [_rare_clause(base.field, found.rare), *outcome_clauses(_outcome_of(days[0]))]
        clauses.append((sign, {"bool": {"filter": rare}}))
    if others:
        failing = any_of([each.clause(days, is_failing=True) for each in others])
        both = [failing, base.clause(days)]
        both += outcome_clauses(_outcome_of(days[0]))
        if sum(day.of for day in days) != total:
            both.append(days_clause(day.day for day in days))
        clauses.append((-1, {"bool": {"filter": both}}))
    searches = [_search_of(cluster, query, clause, retention, sums) for _, clause in clauses]
    answers = await _count_between(cluster, query, searches, total, retention)
    if answers is None:
        return False
    yielder = LoopYielder()
    for day in days if base.is_negated else ():
        sums.add_day(day)
        await yielder.yield_if_due()
    for day in found.stored:
        sums.add_day(day, sign)
        await yielder.yield_if_due()
    for (sign_of, _), answer in zip(clauses, answers, strict=True):
        sums.add_answer(answer, sign_of)
        await yielder.yield_if_due()
    return True


async def add_counted(
    cluster: Cluster,
    query: EventQuery,
    days: Sequence[DayCounts],
    total: int,
    retention: Retention,
    sums: EventSums,
) -> bool:
    """Count the matching events of a range one by one, and add the counts to `sums`.

    `total` is the number of all events in the range, and `days` are those whose counts are stored.
    Facets that have too many values on these days are dropped, whatever the filters leave of them:
    counting them twice would cost more. Returns false, and adds nothing, if the log has changed
    since the days were read.
    """
    every = count_search(cluster, every_of(query), retention)
    sums.drop(await _find_large_facets(days))
    body = count_facets(make_query(query, retention), sums.size, MOST_VALUES, sums.fields)
    search = replace(every, body=body)
    answers = await _count_between(cluster, query, [search], total, retention)
    if answers is None:
        return False
    sums.add_answer(answers[0])
    return True


async def _find_large_facets(days: Sequence[DayCounts]) -> list[str]:
    """Return the facets with more values on these days than one answer has."""
    values: dict[str, set[Any]] = {name: set() for name in FACETS}
    yielder = LoopYielder()
    for day in days:
        for name, known in values.items():
            known.update(day.count_values(name))
        await yielder.yield_if_due()
    return [name for name, known in values.items() if len(known) > MOST_VALUES]


async def _within_outcome(
    cluster: Cluster,
    query: EventQuery,
    conditions: list[Condition],
    days: Sequence[DayCounts],
) -> tuple[list[Condition], Sequence[DayCounts]]:
    """Replace the counts of the days by those of one outcome, if the query is for it and for more.

    Returns the other filters. They are answered from counts of their values with this outcome.
    """
    chosen = next((each for each in conditions if each.is_one_outcome), None)
    if chosen is None or len(conditions) == 1:
        return conditions, days
    found = await _find(cluster, query, chosen, days)
    if found.rare or not found.stored:
        return conditions, days
    return [each for each in conditions if each is not chosen], found.stored


async def _count_passing(
    conditions: Sequence[Condition], days: Sequence[DayCounts]
) -> dict[Condition, int]:
    """Return the number of events that match each condition."""
    passing = dict.fromkeys(conditions, 0)
    yielder = LoopYielder()
    for day in days:
        for each in passing:
            passing[each] += each.count_passing(day)
        await yielder.yield_if_due()
    return passing


def _search_of(
    cluster: Cluster,
    query: EventQuery,
    clause: Mapping[str, Any],
    retention: Retention,
    sums: EventSums,
) -> Search:
    every = count_search(cluster, every_of(query), retention)
    body = count_facets(holds_only(every.body["query"], clause), sums.size, MOST_VALUES)
    return replace(every, body=body)


async def _count_between(
    cluster: Cluster,
    query: EventQuery,
    searches: Sequence[Search],
    total: int,
    retention: Retention,
) -> Sequence[Mapping[str, Any]] | None:
    """Return the answers to searches of a range with `total` events.

    Returns `None` if it has another number of them.
    """
    if not searches:
        return ()
    every = count_search(cluster, every_of(query), retention)
    before, *answers, after = await cluster.connection.search_many(
        [every, *searches, every], in_order=True
    )
    is_same = all(each["hits"]["total"]["value"] == total for each in (before, after))
    return answers if is_same else None


async def _find(
    cluster: Cluster, query: EventQuery, condition: Condition, days: Sequence[DayCounts]
) -> _Found:
    """Read the stored counts of the values of a condition."""
    by_day = {day.day: day for day in days}
    counts: dict[tuple[int, Any], int] = {}
    yielder = LoopYielder()
    for day in days:
        of_day = day.count_values(condition.field)
        counts.update({(day.day, v): of_day[v] for v in condition.values if v in of_day})
        await yielder.yield_if_due()
    wanted = [each for each, count in counts.items() if is_frequent(count, by_day[each[0]])]
    wanted.sort(key=lambda each: -counts[each])
    outcome = _outcome_of(days[0])
    places = [(day, Value(condition.field, value, outcome)) for day, value in wanted[:_MOST_READ]]
    stored = {
        (each.day, each.value.value): each
        for each in await read_stored(cluster, query.repository, places)
        if each.value is not None and each.of == by_day[each.day].of
    }
    found = _Found(list(stored.values()))
    for (number, value), count in counts.items():
        if (number, value) not in stored:
            found.rare[number].append(value)
            found.count += count
    return found


def _rare_clause(name: str, rare: Mapping[int, Sequence[Any]]) -> dict[str, Any]:
    """Return the clause for the events that have one of the rare values of their day."""
    days: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for day, values in rare.items():
        days[tuple(sorted(values))].append(day)
    return any_of(
        [
            {"bool": {"filter": [{"terms": {name: list(values)}}, days_clause(same)]}}
            for values, same in days.items()
        ]
    )
