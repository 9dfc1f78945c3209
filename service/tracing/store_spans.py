"""Spans of the calls of the store.

https://opentelemetry.io/docs/specs/semconv/db/database-spans/ defines the attributes. Arguments are
left out: they contain test names and digests of keys.
"""

from __future__ import annotations

from typing import Any, Final

from opentelemetry.semconv.attributes.db_attributes import (
    DB_COLLECTION_NAME,
    DB_OPERATION_NAME,
    DB_SYSTEM_NAME,
)
from opentelemetry.trace import Tracer

from indexing.store.interface import Store
from service.metrics.wrapped_store import CALLER_ERRORS, Call, wrap_calls
from service.tracing.spans import call_span, is_traced, mark_failed

# The collection of each call, by the same name for both stores. Other calls have none.
COLLECTIONS: Final = {
    "events": (
        "aggregate_events",
        "find_newest_arrival",
        "list_arrivals",
        "list_events",
        "refresh_event_counts",
        "write_events",
    ),
    "executions": (
        "list_executions",
        "measure_executions",
        "remove_executions",
        "write_results",
    ),
    "failures": ("get_failure", "list_failures"),
    "identities": ("count_matches", "find_identity", "search_tests"),
    "keys": ("add_key", "find_key", "get_key", "list_keys", "revoke_key"),
    "outbox": (
        "count_outbox",
        "drop_orphans",
        "find_waiting",
        "give_up",
        "give_up_aged",
        "list_outbox",
        "remove_sent",
        "retry_dead",
    ),
    "quarantine_changes": ("list_quarantine_changes",),
    "quarantines": (
        "add_quarantine",
        "find_next_expiry",
        "get_quarantine",
        "list_quarantines",
        "notice_expiring",
        "remove_quarantine",
    ),
    "repositories": (
        "ensure_repository",
        "find_repository",
        "get_code_owners",
        "list_owned",
        "list_repositories",
        "set_code_owners",
        "set_repository",
    ),
    "runs": ("list_runs",),
    "tests": (
        "count_health",
        "count_stale_tests",
        "count_tests",
        "count_verdicts",
        "forget_test",
        "get_health",
        "get_test",
        "group_tests",
        "list_filepaths",
        "refresh_tests",
    ),
    "transitions": ("list_transitions", "list_transitions_of_test"),
    "trends": ("count_flaky_verdicts", "find_final_day", "sum_days", "sum_days_of_test"),
    "webhooks": ("add_webhook", "list_webhooks", "remove_webhook"),
}
_COLLECTION_OF: Final = {call: name for name, calls in COLLECTIONS.items() for call in calls}


def trace_store(store: Store, tracer: Tracer, system: str) -> Store:
    """Return the same store with traced calls; `system` is the database's conventional name."""

    def wrap(name: str, call: Call) -> Call:
        attributes = {DB_SYSTEM_NAME: system, DB_OPERATION_NAME: name}
        title = name
        if name in _COLLECTION_OF:
            attributes[DB_COLLECTION_NAME] = _COLLECTION_OF[name]
            title = f"{name} {_COLLECTION_OF[name]}"

        async def traced(*args: Any, **rest: Any) -> Any:
            if not is_traced():
                return await call(*args, **rest)
            with call_span(tracer, title, attributes) as span:
                try:
                    return await call(*args, **rest)
                except CALLER_ERRORS:
                    raise
                except BaseException as error:
                    mark_failed(span, error)
                    raise

        return traced

    return wrap_calls(store, wrap)
