"""Cursors: they decode to what was encoded, are small, and are refused after tampering."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import missing

from indexing.identifiers import derive_identity_id
from indexing.models.events import EventKey
from indexing.models.quarantines import QuarantineKey
from indexing.models.tests import IdentityKey
from service.http.operations import Operation
from service.http.route import ListRoute
from service.pagination.cursor import (
    KEY_MAX_SIZE,
    CursorSigner,
    InvalidCursorError,
    KeyCodec,
    OtherStoreError,
    Position,
    TimeRange,
    identify_list,
    make_cursor_writer,
    read_cursor,
)
from service.pagination.sort_keys import (
    EVENT_KEYS,
    IDENTITY_KEYS,
    QUARANTINE_KEYS,
    IdentityReference,
    place_identity,
)
from service.routes import READ_ROUTES
from service.schemas.limits import CURSOR_MAX_LENGTH
from tests.builders import NOON, WIDGETS

SIGNER = CursorSigner(b"k" * 32, "store-1")
LIST = identify_list("events", "acme/widgets", b"{}")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
CURSOR = make_cursor_writer(SIGNER, LIST, TimeRange(NOON, NOON))(
    EVENT_KEYS.pack(EventKey(NOON, 7)), False
)

moments = st.datetimes(timezones=st.just(UTC))
time_ranges = st.none() | st.builds(TimeRange, moments, moments)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
counts = st.integers(0, 2**40)
sort_values = st.none() | st.integers(-(2**62), 2**62) | st.floats(0, 1)
identities = st.builds(IdentityKey, counts, names, names, names, sort_values)
event_keys = st.builds(EventKey, moments, st.integers(0, 2**63 - 1))
quarantine_keys = st.builds(QuarantineKey, moments, st.uuids())


def round_trip(codec: KeyCodec[Any], position: Position[Any]) -> Position[Any]:
    packed = None if position.key is None else codec.pack(position.key)
    text = make_cursor_writer(SIGNER, LIST, position.time_range)(packed, position.backward)
    assert len(text) <= CURSOR_MAX_LENGTH
    assert set(text) <= set(ALPHABET)
    return read_cursor(SIGNER, LIST, codec, text)


@given(st.none() | event_keys, st.booleans(), time_ranges)
def test_a_place_in_the_log_comes_back(
    key: EventKey | None,
    backward: bool,
    time_range: TimeRange | None,
) -> None:
    position = Position(key, backward, time_range)
    assert round_trip(EVENT_KEYS, position) == position


@given(quarantine_keys)
def test_a_place_among_quarantines_comes_back(key: QuarantineKey) -> None:
    assert round_trip(QUARANTINE_KEYS, Position(key)) == Position(key)


@given(identities)
def test_a_place_in_the_search_comes_back(key: IdentityKey) -> None:
    place = place_identity(WIDGETS, key)
    assert round_trip(IDENTITY_KEYS, Position(place)) == Position(place)


@given(
    st.lists(st.integers(1, 700), min_size=3, max_size=3), st.sampled_from("aé中🚀"), sort_values
)
def test_long_names_are_referred_to_and_never_make_a_long_cursor(
    lengths: list[int], letter: str, value: float | None
) -> None:
    test, pipeline, job = (letter * length for length in lengths)
    key = IdentityKey(3, test, pipeline, job, value)
    place = place_identity(WIDGETS, key)
    identity_id = derive_identity_id(WIDGETS, test, pipeline, job)
    assert place in {key, IdentityReference(3, identity_id, value)}
    assert round_trip(IDENTITY_KEYS, Position(place)).key == place


@pytest.mark.parametrize("value", [None, 7, 0.5])
def test_a_cursor_of_names_that_hardly_fit_is_not_too_long(value: float | None) -> None:
    for length in range(KEY_MAX_SIZE - 40, KEY_MAX_SIZE + 1):
        place = place_identity(WIDGETS, IdentityKey(1, "a" * length, "", "", value))
        assert round_trip(IDENTITY_KEYS, Position(place)).key == place


@given(identities)
def test_the_shortest_key_of_a_row_refers_to_it(key: IdentityKey) -> None:
    identity_id = derive_identity_id(WIDGETS, key.test_name, key.pipeline_name, key.job_name)
    reference = IdentityReference(key.executions_count, identity_id, key.value)
    shortest = IDENTITY_KEYS.shorten(WIDGETS, IDENTITY_KEYS.pack(key))
    assert IDENTITY_KEYS.unpack(shortest) == reference
    assert IDENTITY_KEYS.shorten(WIDGETS, shortest) == shortest


def test_names_that_fit_are_carried() -> None:
    fitting = IdentityKey(1, "a" * 600, "b" * 50, "c" * 50)
    assert place_identity(WIDGETS, fitting) == fitting


@pytest.mark.parametrize("at", range(len(CURSOR)))
def test_an_altered_character_is_refused_wherever_it_is(at: int) -> None:
    for letter in ALPHABET.replace(CURSOR[at], ""):
        with pytest.raises(InvalidCursorError):
            read_cursor(SIGNER, LIST, EVENT_KEYS, CURSOR[:at] + letter + CURSOR[at + 1 :])


@given(st.integers(0, len(CURSOR)), st.integers(0, len(CURSOR)))
def test_a_piece_of_a_cursor_is_refused(start: int, end: int) -> None:
    if CURSOR[start:end] != CURSOR:
        with pytest.raises(InvalidCursorError):
            read_cursor(SIGNER, LIST, EVENT_KEYS, CURSOR[start:end])


@given(st.text(max_size=80) | st.text(ALPHABET, max_size=80))
def test_a_forged_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError):
        read_cursor(SIGNER, LIST, EVENT_KEYS, text)


@pytest.mark.parametrize("added", ["=", "==", "A", "\n", " ", "%3D"])
def test_a_cursor_with_something_added_is_refused(added: str) -> None:
    with pytest.raises(InvalidCursorError):
        read_cursor(SIGNER, LIST, EVENT_KEYS, CURSOR + added)


@pytest.mark.parametrize(
    "list_id",
    [
        identify_list("search", "acme/widgets", b"{}"),
        identify_list("events", "acme/gadgets", b"{}"),
        identify_list("events", "acme/widgets", b'{"base_ref":"main"}'),
        identify_list("events", "acme/widget", b"s{}"),
    ],
)
def test_a_cursor_of_another_list_is_refused(list_id: bytes) -> None:
    with pytest.raises(InvalidCursorError):
        read_cursor(SIGNER, list_id, EVENT_KEYS, CURSOR)


def test_another_secret_refuses_what_another_store_under_the_same_secret_only_calls_stale() -> None:
    with pytest.raises(InvalidCursorError):
        read_cursor(CursorSigner(b"x" * 32, SIGNER.store_id), LIST, EVENT_KEYS, CURSOR)
    with pytest.raises(OtherStoreError):
        read_cursor(CursorSigner(SIGNER.secret, "store-2"), LIST, EVENT_KEYS, CURSOR)


def test_the_ends_of_time_can_be_carried() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    position = Position(EventKey(last, 2**63 - 1), time_range=TimeRange(first, last))
    assert round_trip(EVENT_KEYS, position) == position


def test_a_cursor_of_the_log_is_short() -> None:
    assert len(CURSOR) < 100


# The cursors of a list are bound to its filters, defaults included.
DEFAULTS = {
    Operation.EVENTS: {
        *("base_ref", "event_type", "outcome", "pull_request", "trigger"),
        *("not_event_type", "not_outcome", "not_pull_request", "not_trigger"),
        *("received_from", "received_to"),
    },
    Operation.SEARCH: {
        *("direction", "job_name", "job_name_exclude", "pipeline_name", "pipeline_name_exclude"),
        "sort",
    },
    Operation.QUARANTINES: {"branch", "source", "test_id"},
    Operation.QUARANTINE_CHANGES: set(),
    Operation.TEST_STATES: {"branch_name", "job_name", "pipeline_name", "state", "test_name"},
    Operation.TRANSITIONS: {"end", "health_status", "start"},
    Operation.EXECUTIONS: {
        *("branch", "commit", "conclusion", "end", "job_name", "pipeline_name", "start"),
    },
    Operation.FAILURES: {"branch"},
    Operation.RUNS: {"branch", "commit", "job_name", "pipeline_name", "pull_request"},
    Operation.REPOSITORIES: {"repository", "sort"},
}


def test_a_new_filter_has_no_default_so_that_earlier_cursors_stay_valid() -> None:
    unbound = {"cursor", "per_page", "include"}
    assert {
        route.operation: {
            name
            for name, field in route.query.load_fields.items()
            if field.load_default is not missing and name not in unbound
        }
        for route in READ_ROUTES
        if isinstance(route, ListRoute)
    } == DEFAULTS


@given(st.binary(min_size=1, max_size=200), st.binary(max_size=100))
def test_the_mac_is_half_of_an_hmac(secret: bytes, payload: bytes) -> None:
    expected = hmac.digest(secret, LIST + payload, "sha256")[:16]
    assert CursorSigner(secret, "store-1").mac(LIST, payload) == expected
