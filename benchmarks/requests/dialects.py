"""Builds requests for the service, for Datasette, and for Elasticsearch itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from benchmarks.data.generated import EVENTS_FROM, EVENTS_TO, name_of
from benchmarks.requests.operations import Kind, Operation, QueriedRepository
from indexing.identifiers import derive_test_id
from indexing.models.events import EventQuery
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.event_query import make_query as make_event_query
from indexing.store.elasticsearch.event_query import slices_of
from indexing.store.elasticsearch.events import newest_part
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.search.query import ORDERS, make_query
from indexing.store.elasticsearch.search.shortcuts import find_shortcut, make_shortcut_query
from indexing.timestamps import format_timestamp, to_microseconds

# Datasette's name of the file, and the row id of the repository that was loaded first.
_TABLES: Final = "/mergewatch"
_REPOSITORY_ROW: Final = "1"

# Returns the path of request `number`, or of the repeated request if it is None.
Dialect = Callable[[Operation, QueriedRepository, int | None], str]


def service_path(operation: Operation, queried: QueriedRepository, number: int | None) -> str:
    """Use the service's API, which the FastAPI peer has too."""
    ci = f"/v1/ci/{queried.repository.owner}/repositories/{queried.repository.name}"
    if operation.kind is Kind.DETAIL:
        name = name_of((number or 0) % queried.tests)
        return f"{ci}/tests/{derive_test_id(queried.repository, name)}"
    if operation.kind is Kind.QUARANTINES:
        return f"{ci}/quarantines" + ("" if number is None else f"?branch=feature-{number}")
    if operation.kind is Kind.EVENTS:
        query = {
            "received_from": format_timestamp(EVENTS_FROM),
            "received_to": format_timestamp(_end_of_events(number)),
            "per_page": operation.per_page,
        }
        return f"/v1/repos/{queried.repository}/logs?{urlencode(query)}"
    glob = quote(_glob_of(operation, queried, number), safe="*")
    excluded = "".join(f"&job_name_exclude={job}" for job in _excluded(number))
    return f"{ci}/search/tests?test_name={glob}{excluded}"


def datasette_path(operation: Operation, queried: QueriedRepository, number: int | None) -> str:
    """Use Datasette's JSON API over the service's tables."""
    if operation.kind is Kind.DETAIL:
        return f"{_TABLES}/tests/{(number or 0) % queried.tests + 1}.json?_shape=array"
    if operation.kind is Kind.QUARANTINES:
        filters = [("removed_at__isnull", "1"), ("_sort", "created_at"), ("_size", "100")]
        return _rows("quarantines", filters)
    if operation.kind is Kind.EVENTS:
        filters = [
            ("received_at__gte", str(to_microseconds(EVENTS_FROM))),
            ("received_at__lt", str(to_microseconds(_end_of_events(number)))),
            ("_sort_desc", "received_at"),
            ("_size", str(operation.per_page)),
        ]
        return _rows("events", filters)
    filters = [
        ("executions_count__notnull", "1"),
        ("test_name__glob", _glob_of(operation, queried, number)),
        *(("job_name__not", job) for job in _excluded(number)),
        ("_sort_desc", "executions_count"),
        ("_size", str(operation.per_page)),
    ]
    return _rows("identities", filters)


def elasticsearch_path(prefix: str) -> Dialect:
    """Use the service's own searches for event pages and globs."""
    layout = Layout(prefix)

    def path(operation: Operation, queried: QueriedRepository, number: int | None) -> str:
        routing = routing_of(queried.repository)
        if operation.kind is Kind.EVENTS:
            every = EventQuery(queried.repository, EVENTS_FROM, _end_of_events(number))
            part = newest_part(layout, every, Anchor()) or every
            index = slices_of(layout, part)
            body = _body(operation, make_event_query(part, Retention()), ("received_at", "id"))
        else:
            asks = TestQuery(
                queried.repository,
                (_glob_of(operation, queried, number),),
                jobs_excluded=tuple(_excluded(number)),
            )
            index = layout.identities
            shortcut = find_shortcut(asks)
            searched = (
                make_query(asks, routing)
                if shortcut is None
                else make_shortcut_query(shortcut, asks, routing)
            )
            body = _body(operation, searched, ORDERS[asks.sort])
            body["size"] += 0 if shortcut is None else shortcut.value
            # The sort keys have all that a row shows.
            body["stored_fields"] = "_none_"
        query = {
            "routing": routing,
            "source": orjson.dumps(body).decode(),
            "source_content_type": "application/json",
            "ignore_unavailable": "true",
        }
        return f"/{index}/_search?{urlencode(query)}"

    return path


def _body(operation: Operation, query: Any, order: tuple[str, ...]) -> dict[str, Any]:
    return {
        # One extra row shows whether the list goes on.
        "size": operation.per_page + 1,
        "query": query,
        "sort": [{field: "desc"} for field in order],
        "track_total_hits": False,
    }


def _glob_of(operation: Operation, queried: QueriedRepository, number: int | None) -> str:
    if operation.glob is None:
        raise ValueError(f"{operation.name} is no search")
    return operation.glob(queried, number)


def _end_of_events(number: int | None) -> datetime:
    """Return the end of a range that has all events, another one for each number."""
    return EVENTS_TO + timedelta(microseconds=number or 0)


def _excluded(number: int | None) -> list[str]:
    """Exclude a job that no test has, a new one each time, so that no two searches are equal."""
    return [] if number is None else [f"none-{number}"]


def _rows(table: str, filters: list[tuple[str, str]]) -> str:
    fixed = [("repository_id", _REPOSITORY_ROW), ("_nocount", "1"), ("_shape", "array")]
    return f"{_TABLES}/{table}.json?{urlencode([*fixed, *filters], safe='*')}"
