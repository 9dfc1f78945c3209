"""The targets of loads, each declared once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.results import History, Results
from benchmarks.verdicts import Target

REPORTS_RATIO: Final = 3.0
SMALL_WRITES_RATIO: Final = 5.0
VISIBLE_SECONDS: Final = 2.0
# A report at the greatest depth of history, relative to one a hundred times as shallow.
HISTORY_RATIO: Final = 1.5
HISTORY_DEPTHS: Final = (30, 3_000)
HISTORY_STORES: Final = ("into SQLite", "into Elasticsearch")
# Of the rate at which the official helper loads the same documents, without what is derived.
EXECUTIONS_OF_BULK: Final = 0.35
EVENTS_OF_BULK: Final = 0.5
# Documents of Elasticsearch for each execution, in a store that knows the tests.
READ_AN_EXECUTION: Final = 0.5
WRITTEN_AN_EXECUTION: Final = 2.2
# Tests rebuilt a second.
REBUILT: Final = {HISTORY_STORES[0]: 2_000.0, HISTORY_STORES[1]: 1_000.0}
# Several loaders of one repository, relative to one.
LOADERS_RATIO: Final = 2.0
CACHED_SHARE: Final = 0.9

EVENTS: Final = "events"
NEW_TESTS: Final = "executions of new tests"
SAME_TESTS: Final = "executions of the same tests"
PLAINLY: Final = "plain bulk into Elasticsearch"


def load_targets() -> list[Target]:
    """Return the targets in display order."""
    return [
        Target(
            "loading real reports, times reading them with lxml and storing what was prepared",
            REPORTS_RATIO,
            at_least=False,
            figure=lambda results: results.reports_ratio,
        ),
        Target(
            "events in calls of one into Elasticsearch, at once, times one after the other",
            SMALL_WRITES_RATIO,
            at_least=True,
            figure=lambda results: None if (s := results.small_writes) is None else s.ratio,
        ),
        Target(
            "slowest of those calls, at whose end the event is visible",
            VISIBLE_SECONDS,
            at_least=False,
            figure=lambda results: (
                None if (s := results.small_writes) is None else s.slowest_seconds
            ),
            unit=" s",
        ),
        *(_of_history(store) for store in HISTORY_STORES),
        *(
            _of_bulk(kind, store, bound)
            for kind, bound in (
                (EVENTS, EVENTS_OF_BULK),
                (NEW_TESTS, EXECUTIONS_OF_BULK),
                (SAME_TESTS, EXECUTIONS_OF_BULK),
            )
            for store in HISTORY_STORES
        ),
        *_of_documents(),
        *(_of_rebuild(store) for store in HISTORY_STORES),
        *(_of_loaders(store) for store in HISTORY_STORES),
        *(_of_cached_share(store) for store in HISTORY_STORES),
    ]


def _of_history(store: str) -> Target:
    shallow, deep = HISTORY_DEPTHS

    def figure(results: Results) -> float | None:
        seconds = {each.depth: each.seconds for each in results.histories if each.store == store}
        if shallow not in seconds or deep not in seconds:
            return None
        return seconds[deep] / seconds[shallow]

    return Target(
        f"a report {store} with {deep:,} executions a test, times one with {shallow}",
        HISTORY_RATIO,
        at_least=False,
        figure=figure,
    )


def _of_bulk(kind: str, store: str, bound: float) -> Target:
    def figure(results: Results) -> float | None:
        rates = {each.way: each.per_second for each in results.speeds if each.kind == kind}
        if store not in rates or PLAINLY not in rates:
            return None
        return rates[store] / rates[PLAINLY]

    return Target(f"{kind} a second, {store}, of {PLAINLY}", bound, at_least=True, figure=figure)


def _of_documents() -> Iterator[Target]:
    """Yield the targets for the documents that a report into Elasticsearch reads and writes."""
    depth, store = HISTORY_DEPTHS[0], HISTORY_STORES[1]

    def count(read: Callable[[History], float]) -> Callable[[Results], float | None]:
        def figure(results: Results) -> float | None:
            found = _history_of(results, store)
            return None if found is None else read(found)

        return figure

    for verb, bound, read in (
        ("read", READ_AN_EXECUTION, lambda found: found.read),
        ("written", WRITTEN_AN_EXECUTION, lambda found: found.written),
    ):
        yield Target(
            f"documents {verb} for each execution {store}, with {depth} executions a test",
            bound,
            at_least=False,
            figure=count(read),
        )


def _of_rebuild(store: str) -> Target:
    kind = store.removeprefix("into ")
    return Target(
        f"tests rebuilt a second on {kind}, with {HISTORY_DEPTHS[0]} executions each",
        REBUILT[store],
        at_least=True,
        figure=lambda results: next(
            (each.per_second for each in results.rebuilds if each.store == store), None
        ),
    )


def _history_of(results: Results, store: str) -> History | None:
    """Return what was measured with the shallow history."""
    wanted = (store, HISTORY_DEPTHS[0])
    return next((each for each in results.histories if (each.store, each.depth) == wanted), None)


def _of_loaders(store: str) -> Target:
    return Target(
        f"executions a second {store} by four loaders of one repository, times one loader",
        LOADERS_RATIO,
        at_least=True,
        figure=lambda results: next((o.ratio for o in results.loaders if o.store == store), None),
    )


def _of_cached_share(store: str) -> Target:
    return Target(
        f"share of cached answers during loads {store}, of what they do not change",
        CACHED_SHARE,
        at_least=True,
        figure=lambda results: next(
            (one.share for one in results.cached_shares if one.store == store), None
        ),
    )
