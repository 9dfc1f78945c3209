"""Every invalid value in the interface's tables is a 422 with its field; valid values pass."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError, fields
from yarl import URL

from indexing.errors import InvalidValueError
from service.http.query_string import decode, encode_raw, load, split
from service.schemas.queries import EventsQuery, PagedQuery, QuarantinesQuery, TestsQuery
from tests.builders import make_event
from tests.service.front_door import (
    LOGS,
    QUARANTINES,
    SEARCH,
    TEST_STATES,
    TESTS,
    FrontDoor,
)

CI = "/v1/ci/acme/repositories"
A_UUID = "3f0c9a4e-8d1b-4f6a-9c2d-0123456789ab"

BAD_PATHS = {
    "/v1/repos/ac_me/widgets/logs": "owner",
    f"/v1/repos/{'a' * 41}/widgets/logs": "owner",
    "/v1/repos//widgets/logs": "owner",
    "/v1/repos/ac%C3%A9/widgets/logs": "owner",
    "/v1/repos/acme%0A/widgets/logs": "owner",
    "/v1/repos/acme%2Fx/widgets/logs": "owner",
    "/v1/repos/acme/wid%20gets/logs": "repository",
    "/v1/repos/acme/wid%00gets/logs": "repository",
    "/v1/repos/acme/%FF/logs": "repository",
    "/v1/repos/acme//logs": "repository",
    f"{CI}/wid+gets/search/tests?test_name=a": "repository_name",
    f"{CI}/w%C3%AFdgets/search/tests?test_name=a": "repository_name",
    f"{CI}/wid~gets/quarantines": "repository",
    f"{TESTS}/42": "test_id",
    f"{TESTS}/{A_UUID}": "test_id",
    f"{TESTS}/3f0c9a4e-8d1b-5f6a-0c2d-0123456789ab": "test_id",
    f"{TESTS}/3f0c9a4e8d1b5f6a9c2d0123456789ab": "test_id",
    f"{TESTS}/%7B3f0c9a4e-8d1b-5f6a-9c2d-0123456789ab%7D": "test_id",
    f"{TESTS}/3f0c9a4e-8d1b-5f6a-9c2d-0123456789ab%0A": "test_id",
    f"{QUARANTINES}/42": "quarantine_id",
    f"{QUARANTINES}/urn:uuid:{A_UUID}": "quarantine_id",
}

NO_INTEGERS = ("", "a", "-1", "1.0", "1e3", "0x1", "%201", "1_0", "%2B1", "%D9%A3", "9" * 30)
NO_TIMESTAMPS = (
    "",
    "now",
    "2026-09-01",
    "2026-09-01T12:00:00",
    "2026-09-01T12:00:00.0123456789Z",
    "2026-02-30T12:00:00Z",
    "2026-09-01T25:00:00Z",
    "2026-09-01T12:00:00%2B24:00",
    "1756728000",
    "0000-01-01T00:00:00Z",
)
NO_TEXT = ("%00", "a%00b", "%FF", "%ED%A0%80", "%C3")
NO_CURSORS = ("", "x", "AAAA", "%20", "a" * 2_000, "%C3%A9", "AAAA=", "....")
PAGED = {
    "per_page": ("0", "101", *NO_INTEGERS),
    "cursor": (*NO_CURSORS, *NO_TEXT),
}
BAD_VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    f"{LOGS}?": {
        **PAGED,
        "pull_request": (str(2**63), *NO_INTEGERS),
        "base_ref": ("", "a" * 256, *NO_TEXT),
        "event_type": ("", "action", "action.*", "ACTION.MERGE", "action.merge,action.close"),
        "received_from": NO_TIMESTAMPS,
        "received_to": NO_TIMESTAMPS,
    },
    f"{SEARCH}?": {"test_name": ("", "*" * 17, "?*" * 17, "a" * 2_049, *NO_TEXT)},
    f"{SEARCH}?test_name=*&": {
        **PAGED,
        "sort": ("", "name", "test_name,job_name", "TEST_NAME"),
        "direction": ("", "up", "ASC"),
        "pipeline_name": ("a" * 2_049, *NO_TEXT),
        "pipeline_name_exclude": ("a" * 2_049, *NO_TEXT),
        "job_name": ("a" * 2_049, *NO_TEXT),
        "job_name_exclude": ("a" * 2_049, *NO_TEXT),
    },
    f"{QUARANTINES}?": {
        **PAGED,
        "branch": ("", "a" * 256, *NO_TEXT),
        "test_id": ("", "42", f"%7B{A_UUID}%7D", A_UUID.replace("-", ""), A_UUID + "%0A"),
        "source": ("", "Manual", "both"),
    },
    f"{TEST_STATES}?": {
        **PAGED,
        "state": ("", "Quarantined", "healthy"),
        "branch_name": ("", "a" * 256, *NO_TEXT),
        "test_name": ("", "a" * 2_049, *NO_TEXT),
        "pipeline_name": ("a" * 2_049, *NO_TEXT),
        "job_name": ("a" * 2_049, *NO_TEXT),
    },
}
LISTS: dict[str, dict[str, str]] = {
    f"{LOGS}?": {"pull_request": "1", "event_type": "action.merge"},
    f"{SEARCH}?": {"test_name": "a"},
    f"{SEARCH}?test_name=*&": dict.fromkeys(
        ("pipeline_name", "pipeline_name_exclude", "job_name", "job_name_exclude"), "a"
    ),
    f"{TEST_STATES}?": {"pipeline_name": "a", "job_name": "a"},
}
SCALARS = {
    f"{LOGS}?": {
        "base_ref": "main",
        "received_from": "2026-09-01T12:00:00Z",
        "received_to": "2026-09-01T12:00:00Z",
        "per_page": "5",
        "cursor": "AAAA",
    },
    f"{SEARCH}?test_name=*&": {"sort": "test_name", "direction": "asc", "per_page": "5"},
    f"{QUARANTINES}?": {"branch": "main", "test_id": A_UUID, "source": "auto", "per_page": "5"},
    f"{TEST_STATES}?": {
        "state": "quarantined",
        "branch_name": "main",
        "test_name": "a",
        "per_page": "5",
    },
}


@pytest.mark.parametrize("target", BAD_PATHS)
async def test_a_malformed_path_parameter_is_named(shared_door: FrontDoor, target: str) -> None:
    answer = await shared_door.get(target)
    assert answer.wrong_fields == [("path", BAD_PATHS[target])]


@pytest.mark.parametrize(
    ("base", "name"), [(base, name) for base, fields in BAD_VALUES.items() for name in fields]
)
async def test_a_bad_value_is_named(shared_door: FrontDoor, base: str, name: str) -> None:
    for value in BAD_VALUES[base][name]:
        answer = await shared_door.get(f"{base}{name}={value}")
        assert answer.wrong_fields == [("query", name)], value


@pytest.mark.parametrize(
    ("base", "name"), [(base, name) for base, fields in LISTS.items() for name in fields]
)
async def test_a_parameter_takes_a_hundred_values_and_no_more(
    shared_door: FrontDoor, base: str, name: str
) -> None:
    values = [f"{name}={LISTS[base][name]}"] * 101
    assert (await shared_door.get(base + "&".join(values[1:]))).status == 200
    assert (await shared_door.get(base + "&".join(values))).wrong_fields == [("query", name)]


@pytest.mark.parametrize(
    ("base", "name"), [(base, name) for base, fields in SCALARS.items() for name in fields]
)
async def test_a_scalar_that_is_repeated_is_named(
    shared_door: FrontDoor, base: str, name: str
) -> None:
    piece = f"{name}={SCALARS[base][name]}"
    assert (await shared_door.get(f"{base}{piece}&{piece}")).wrong_fields == [("query", name)]


async def test_all_wrong_fields_are_named_at_once(shared_door: FrontDoor) -> None:
    answer = await shared_door.get(
        f"{LOGS}?per_page=0&received_to=x&base_ref=&pull_request=1&pull_request=a&event_type=b"
        "&cursor=%FF&received_from=2026-09-01"
    )
    named = {field for _, field in answer.wrong_fields}
    assert named == {
        "per_page",
        "received_to",
        "received_from",
        "base_ref",
        "pull_request",
        "event_type",
        "cursor",
    }
    details = {error["field"]: error["detail"] for error in answer.json["errors"]}
    assert details["pull_request"].startswith("value 2: ")


async def test_a_cursor_is_named_beside_whatever_else_is_wrong(shared_door: FrontDoor) -> None:
    await shared_door.store.write_events([make_event(number) for number in range(3)])
    page = f"{LOGS}?received_to=2026-09-02T00:00:00Z&per_page=1"
    good = URL((await shared_door.get(page)).links["next"], encoded=True).raw_query_string
    for query, wrong in (
        ("cursor=garbage", ["cursor"]),
        ("cursor=garbage&per_page=0", ["per_page", "cursor"]),
        ("cursor=garbage&base_ref=&event_type=x", ["base_ref", "event_type", "cursor"]),
        (good.replace("per_page=1", "per_page=0"), ["per_page"]),
        (f"{good}&base_ref=", ["base_ref", "cursor"]),
    ):
        answer = await shared_door.get(f"{LOGS}?{query}")
        assert answer.wrong_fields == [("query", name) for name in wrong], query


async def test_a_range_that_ends_before_it_begins_is_named_beside_the_rest(
    shared_door: FrontDoor,
) -> None:
    backwards = "received_from=2026-09-02T00:00:00Z&received_to=2026-09-01T00:00:00Z"
    answer = await shared_door.get(f"{LOGS}?{backwards}&per_page=0")
    assert answer.wrong_fields == [("query", "per_page"), ("query", "received_from")]


async def test_as_many_values_as_allowed_are_accepted(shared_door: FrontDoor) -> None:
    values = "&".join(f"test_name={'a' * 64}{number}" for number in range(100))
    answer = await shared_door.get(f"{SEARCH}?{values}")
    assert (answer.status, answer.json["size"]) == (200, 0)


async def test_both_path_parameters_are_named_at_once(shared_door: FrontDoor) -> None:
    answer = await shared_door.get("/v1/repos/a_b/c d/logs".replace(" ", "%20"))
    assert answer.wrong_fields == [("path", "owner"), ("path", "repository")]


async def test_the_search_needs_a_test_name(shared_door: FrontDoor) -> None:
    assert (await shared_door.get(SEARCH)).wrong_fields == [("query", "test_name")]


async def test_unknown_parameters_are_left_alone_and_named(shared_door: FrontDoor) -> None:
    answer = await shared_door.get(f"{LOGS}?since=x&since=y&%FF=%FF&&=&per_page=5&b+b=1")
    assert answer.status == 200
    assert answer.headers["X-Ignored-Parameters"] == "%FF, b%20b, since"


async def test_a_range_that_ends_before_it_begins_is_refused(shared_door: FrontDoor) -> None:
    answer = await shared_door.get(
        f"{LOGS}?received_from=2026-09-01T12:00:01Z&received_to=2026-09-01T12:00:00Z"
    )
    assert answer.wrong_fields == [("query", "received_from")]


async def test_the_longest_value_gets_through_the_door(shared_door: FrontDoor) -> None:
    longest = "a" * 2_048
    assert (await shared_door.get(f"{SEARCH}?test_name={longest}")).status == 200
    longer = await shared_door.get(f"{SEARCH}?test_name={longest}a")
    assert longer.wrong_fields == [("query", "test_name")]


@pytest.mark.parametrize("moment", ["2026-09-01T12:00:00 02:00", "2026-09-01t12:00:00.123456789z"])
async def test_a_timestamp_may_be_written_in_any_rfc_3339_way(
    shared_door: FrontDoor, moment: str
) -> None:
    assert (await shared_door.get(f"{LOGS}?received_to={quote(moment)}")).status == 200
    assert (await shared_door.get(f"{LOGS}?received_to={moment.replace(' ', '+')}")).status == 200


@given(st.text())
def test_what_a_client_encodes_is_what_is_read(text: str) -> None:
    encoded = quote(text, safe="", errors="surrogatepass")
    unusable = "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)
    if unusable:
        with pytest.raises(InvalidValueError):
            decode(encoded)
    else:
        assert decode(encoded) == text


@given(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"])) | st.text("%4aG*"))
def test_what_is_sent_back_in_a_link_is_plain_and_means_the_same(raw: str) -> None:
    again = encode_raw(raw)
    assert again.isascii()
    assert not set(again) & set('<>"\\ \r\n')
    assert not re.search("%(?![0-9A-Fa-f]{2})", again)
    assert encode_raw(again) == again
    sent, _ = split(f"a={raw}", ["a"])
    given, _ = split(encode_raw(f"a={raw}"), ["a"])
    assert [encode_raw(piece.raw_value) for piece in sent] == [p.raw_value for p in given]


@pytest.mark.parametrize(
    ("raw", "field", "detail"),
    [
        ("test_name=a&per_page=1&per_page=%FF", "per_page", "must be given once"),
        ("test_name=a&per_page=%FF&per_page=1", "per_page", "must be percent-encoded UTF-8"),
        ("test_name=a&test_name=%FF&test_name=b", "test_name", "must be percent-encoded UTF-8"),
    ],
)
def test_a_parameter_has_its_first_error(raw: str, field: str, detail: str) -> None:
    schema = TestsQuery()
    _, errors = load(schema, split(raw, schema.load_fields)[0])
    assert [(error.field, error.detail) for error in errors] == [(field, detail)]


@given(st.text(), st.sampled_from([EventsQuery(), TestsQuery()]))
def test_any_query_is_read_or_refused_with_named_fields(raw: str, schema: EventsQuery) -> None:
    names = list(schema.load_fields)
    for query in (raw, f"{names[0]}={raw}", f"{names[-1]}={raw}&{names[-1]}=1"):
        loaded, errors = load(schema, split(query, names)[0])
        assert {*loaded} | {error.field for error in errors} <= set(names)


@given(
    st.sampled_from([EventsQuery(), TestsQuery(), QuarantinesQuery()]),
    st.lists(
        st.sampled_from(
            [
                *(
                    f"received_{end}=2026-09-0{day}T00:00:00Z"
                    for end in ("from", "to")
                    for day in (1, 2)
                ),
                *(
                    f"{name}={value}"
                    for name in ("per_page", "test_name", "sort")
                    for value in ("", "5")
                ),
                "base_ref=main",
                "event_type=action.merge",
                "quarantined=true",
                "include=details",
                "source=auto",
            ]
        ),
        unique_by=lambda piece: piece.partition("=")[0],
    ),
)
def test_parameters_are_what_their_schema_reads(schema: PagedQuery, given: list[str]) -> None:
    arranged = {
        name: [value] if isinstance(schema.load_fields[name], fields.List) else value
        for name, _, value in (piece.partition("=") for piece in given)
        if name in schema.load_fields
    }
    try:
        expected, wrong = schema.load(arranged), []
    except ValidationError as error:
        expected, wrong = error.valid_data, sorted(error.messages_dict)
    loaded, errors = load(schema, split("&".join(given), schema.load_fields)[0])
    assert loaded == expected
    assert [error.field for error in errors] == wrong


@given(
    values=st.lists(st.sampled_from(["action.merge", "action.close", "action.edit"]), max_size=6)
)
def test_the_order_and_the_repeats_of_a_list_do_not_matter(values: list[str]) -> None:
    raw = "&".join(f"event_type={value}" for value in values)
    loaded, _ = load(EventsQuery(), split(raw, ["event_type"])[0])
    assert loaded["event_type"] == tuple(sorted(set(values)))


@pytest.mark.parametrize(
    ("patterns", "fits"),
    [
        (["*" * 16] * 31, True),
        (["*" + "?" * 499], True),
        (["?" * 2_000] * 3, True),
        (["a" * 60] * 100, True),
        ([f"*name {number}*" for number in range(100)], True),
        ([f"{number}" + "*" * 16 for number in range(32)], False),
        (["*" + "?" * 500], False),
        ([f"*?a?{number}*?*" for number in range(100)], False),
    ],
)
async def test_the_cost_of_all_patterns_together_is_limited(
    shared_door: FrontDoor, patterns: list[str], fits: bool
) -> None:
    query = "&".join(f"test_name={quote(pattern, safe='*?')}" for pattern in patterns)
    answer = await shared_door.get(f"{SEARCH}?{query}")
    if fits:
        assert answer.status == 200
    else:
        assert answer.wrong_fields == [("query", "test_name")]
        assert "500 wildcards" in answer.json["errors"][0]["detail"]
