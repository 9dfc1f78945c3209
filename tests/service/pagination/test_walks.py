"""The pages of a list differ in their cursor alone: the rest of the query is read once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from indexing.models.events import EventKey
from indexing.names import RepositoryName
from service.http.operations import Operation
from service.http.problems import Problem
from service.pagination import paginator
from service.pagination.cursor import CursorSigner, Position
from service.pagination.paginator import ListQuery, Paginator
from service.pagination.sort_keys import EVENT_KEYS
from service.schemas.limits import CURSOR_MAX_LENGTH
from service.schemas.queries import EventsQuery
from service.schemas.query import Query
from tests.builders import NOON

WIDGETS = RepositoryName("acme", "widgets")
SIGNER = CursorSigner(b"k" * 32, "store-1")
SCHEMA = EventsQuery()


def start(
    raw_query: str, schema: Query = SCHEMA
) -> tuple[ListQuery, Paginator[EventKey], Position[EventKey]]:
    return paginator.start_paginator(
        schema, raw_query, SIGNER, Operation.EVENTS, WIDGETS, EVENT_KEYS
    )


def cursor_at(number: int) -> str:
    _, of_list, _ = start("per_page=2")
    return of_list.open_writer(None)(EVENT_KEYS.pack(EventKey(NOON, number)), False)


CURSOR = cursor_at(7)

pieces = st.sampled_from(
    (
        f"cursor={CURSOR}",
        f"cursor={CURSOR}.",
        f"cursor={'A' * CURSOR_MAX_LENGTH}",
        f"cursor={'A' * (CURSOR_MAX_LENGTH + 1)}",
        f"%63ursor={CURSOR}",
        f"cursor=%{ord(CURSOR[0]):x}{CURSOR[1:]}",
        f"xcursor={CURSOR}",
        f"Cursor={CURSOR}",
        "cursor=_",
        "cursor=a=b",
        "cursor=a b",
        "cursor=a\n",
        "cursor=",
        "cursor",
        "per_page=2",
        "per_page=none",
        "trigger=cursor=a",
        "unknown=1",
        "",
    )
)


def outcome(raw_query: str) -> object:
    """Return what the list reads from a query, or the invalid fields."""
    try:
        query, of_list, position = start(raw_query)
    except Problem as problem:
        return problem.status, problem.detail, problem.errors
    parameters = {name: value for name, value in query.parameters.items() if name != "cursor"}
    told = (query.canonical, query.before, query.after, query.ignored)
    return parameters, told, of_list.list_id, position


@given(st.lists(pieces, max_size=4).map("&".join))
def test_a_query_means_the_same_however_its_cursor_is_spelled(raw_query: str) -> None:
    with patch.object(paginator, "_take_cursor", lambda raw_query: (raw_query, None)):
        expected = outcome(raw_query)
    assert outcome(raw_query) == expected


def test_the_parameters_of_a_walk_are_read_once() -> None:
    loads = 0

    class Counted(EventsQuery):
        def check(self, values: Mapping[str, Any]) -> None:
            nonlocal loads
            loads += 1
            super().check(values)

    schema = Counted()
    for number in range(3):
        _, _, position = start(f"per_page=2&cursor={cursor_at(number)}", schema)
        assert position.key == EventKey(NOON, number)
    assert loads == 1
