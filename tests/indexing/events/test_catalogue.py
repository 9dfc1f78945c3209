"""The catalogue, compared with the interface's own tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.events.catalogue import CATALOGUE, EVENT_TYPES
from indexing.events.parsing import RefusedEventError, parse_event
from indexing.events.queue import ABORT_CODES
from tests import strategies
from tests.indexing.events import shapes

every_type = pytest.mark.parametrize("event_type", shapes.EVENT_TYPES)

WRONG: dict[str, list[Any]] = {
    "string": [5, True, [], {}],
    "repository": [5, "no-slash", "a/b/c", "ünïcode/x", "/x", "x/", "o" * 41 + "/x"],
    "choice": [5, "no such choice", "", [], {}],
    "date-time": [5, "yesterday", "2026-11-01", "2026-11-01T10:00:00", "2026-02-30T10:00:00Z"],
    "uuid": [5, "x", "0b9d6b0e2d655c6c9f0f0e6a1f0a9d11", "{0b9d6b0e-2d65-5c6c-9f0f-0e6a1f0a9d11}"],
    "integer": ["5", 5.0, True, False, [], {}],
    "boolean": [1, 0, "true", [], {}],
    "object": [[], "x", 5],
    "struct": [[], "x", 5, [["a", "b"]]],
    "array": [{}, "x", 5],
    "integer-or-uuid": ["5", 5.0, True, [], {}],
    "conditions": ["x", 5, {}, {"and": [], "or": []}, {"not": []}, {"and": "x"}, {"or": [5]}],
}


def reasons(event: Any) -> tuple[str, ...]:
    with pytest.raises(RefusedEventError) as refusal:
        parse_event(json.dumps(event).encode())
    return refusal.value.reasons


def served(event: Any) -> Any:
    parsed = parse_event(json.dumps(event, ensure_ascii=False).encode())
    return json.loads(parsed.finish(parsed.repository).body)


def parent_of(event: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        event = event[step]
    return event


def names_it(found: tuple[str, ...], path: tuple[str | int, ...]) -> bool:
    """Whether a reason names that member, or a member of it."""
    dotted = ".".join(map(str, path))
    return any(reason.startswith((f"{dotted}: ", f"{dotted}.")) for reason in found)


def test_the_types_are_those_of_the_interface_in_its_order() -> None:
    assert len(EVENT_TYPES) == 41
    assert EVENT_TYPES == shapes.EVENT_TYPES
    assert ABORT_CODES == shapes.ABORT_CODES


def test_components_have_names_of_their_own() -> None:
    names = [
        schema.__name__
        for declared in CATALOGUE.values()
        for schema in (declared.envelope, declared.metadata)
    ]
    assert len(set(names)) == 82
    assert CATALOGUE["action.queue.checks_end"].envelope.__name__ == "ActionQueueChecksEndEvent"


@every_type
@settings(max_examples=8)
@given(data=st.data())
def test_an_event_comes_out_as_it_went_in(event_type: str, data: st.DataObject) -> None:
    event = data.draw(strategies.events_of(event_type))
    out = served(event)
    assert out == strategies.in_utc(shapes.event_shape(event_type), event)
    assert list(out) == [
        "id",
        "received_at",
        "trigger",
        "repository",
        "pull_request",
        "base_ref",
        "type",
        "metadata",
    ]


@every_type
def test_each_required_member_is_missed_by_name(event_type: str) -> None:
    shape = shapes.event_shape(event_type)
    for path, place in shapes.walk(shape, shapes.plain(shape)):
        if isinstance(path[-1], int) or path == ("id",):
            continue
        event = shapes.plain(shape)
        del parent_of(event, path)[path[-1]]
        if place.required:
            expected = f"{'.'.join(map(str, path))}: is missing"
            assert expected in reasons(event)
        else:
            assert served(event) == event


@every_type
def test_each_mistyped_member_is_refused_by_name(event_type: str) -> None:
    shape = shapes.event_shape(event_type)
    for path, place in shapes.walk(shape, shapes.plain(shape)):
        for wrong in [*WRONG[place.kind], *([] if place.nullable else [None])]:
            event = shapes.plain(shape)
            parent_of(event, path)[path[-1]] = wrong
            assert names_it(reasons(event), path), (path, wrong)


@every_type
def test_each_nullable_member_may_be_null(event_type: str) -> None:
    shape = shapes.event_shape(event_type)
    event = shapes.plain(shape)
    for path, place in shapes.walk(shape, shapes.plain(shape)):
        # A null further up has already removed some places.
        inside = parent_of(event, path) if place.nullable and _is_there(event, path) else None
        if inside is not None:
            inside[path[-1]] = None
    assert served(event) == event


@every_type
def test_unknown_members_survive_at_every_level(event_type: str) -> None:
    shape = shapes.event_shape(event_type)
    event = shapes.plain(shape)
    extra = {"of": [2**64, -(2**70), 1.5, None, "ключ 👩🏽‍🚀"], "nested": {"a": {"b": True}}}
    event["zz_new"] = event["aa_new"] = extra
    for path, place in shapes.walk(shape, shapes.plain(shape)):
        if place.kind in {"struct", "object"}:
            parent_of(event, path)[path[-1]]["newer_member"] = extra
    out = served(event)
    assert out == event
    assert list(out)[7:] == ["metadata", "aa_new", "zz_new"]


@pytest.mark.parametrize(
    ("match", "path"),
    [
        ({"source": "oracle"}, "source"),
        ({"source": None}, "source"),
        ({"source": ["annotation"]}, "source"),
        ({"source": "annotation", "annotation_title": "t"}, "annotation_path"),
        ({"source": "annotation", "annotation_path": "p"}, "annotation_title"),
        ({"source": "job_log"}, "matched_line_number"),
        ({"source": "job_log", "matched_line_number": "7"}, "matched_line_number"),
    ],
)
def test_a_condition_match_has_to_be_what_its_source_says(match: Any, path: str) -> None:
    event = shapes.plain(shapes.event_shape("ci_insights.job_retried"))
    event["metadata"]["condition_matches"] = [{"attribute": "a", "matched_value": "b", **match}]
    assert names_it(reasons(event), ("metadata", "condition_matches", 0, path))


def _is_there(event: Any, path: tuple[str | int, ...]) -> bool:
    for step in path:
        if event is None:
            return False
        event = event[step]
    return True
