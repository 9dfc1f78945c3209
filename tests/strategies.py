"""Hypothesis strategies of events, built from the interface's tables, not from the catalogue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from hypothesis import strategies as st

from tests.indexing.events.shapes import EVENT_TYPES, Shape, event_shape

# Difficult text from producers: joined emoji, combining marks, quotes, escapes, right-to-left.
_AWKWARD: Final = (
    "",
    "👩🏽‍🚀 shipped",
    "e\u0301\u0323 n\u0303",
    "\"double\" 'single' `back`",
    "back\\slash \\u0041 \\n",
    "tab\t line\nfeed \u2028 \x7f",
    "עברית",
    "a long one " * 400,
)

texts: Final = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.sampled_from(_AWKWARD),
)
json_values: Final = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
json_objects: Final = st.dictionaries(texts, json_values, max_size=3)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
uuid_texts: Final = st.uuids().map(str)


@st.composite
def timestamps(draw: st.DrawFn) -> str:
    """RFC 3339 in any of its spellings: offsets, fractions, small letters."""
    moment = EPOCH + timedelta(microseconds=draw(st.integers(0, 2**52)))
    offset = timezone(timedelta(minutes=draw(st.integers(-14 * 60, 14 * 60))))
    text = draw(
        st.sampled_from(
            [
                moment.astimezone(offset).isoformat(),
                moment.astimezone(offset).replace(microsecond=0).isoformat(),
                moment.isoformat().replace("+00:00", "Z"),
            ]
        )
    )
    return draw(st.sampled_from([text, text.replace("T", "t").replace("Z", "z")]))


condition_dictionaries: Final[st.SearchStrategy[Any]] = st.recursive(
    st.just({"or": []}),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"and": st.lists(st.one_of(texts, inner), max_size=2)}),
        st.fixed_dictionaries({"or": st.lists(st.one_of(texts, inner), max_size=2)}),
        st.fixed_dictionaries({"not": st.one_of(texts, inner)}),
    ),
    max_leaves=4,
)

_condition_match = {"attribute": texts, "matched_value": texts}
condition_matches: Final = st.one_of(
    st.fixed_dictionaries(_condition_match),
    st.fixed_dictionaries(
        {
            **_condition_match,
            "source": st.just("annotation"),
            "annotation_title": texts,
            "annotation_path": texts,
        }
    ),
    st.fixed_dictionaries(
        {**_condition_match, "source": st.just("job_log"), "matched_line_number": st.integers()}
    ),
)

_SCALARS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "string": texts,
    "integer": st.integers(0, 2**63 - 1),
    "boolean": st.booleans(),
    "date-time": timestamps(),
    "uuid": uuid_texts,
    "repository": st.from_regex(r"[a-zA-Z0-9-]{1,40}/[a-zA-Z0-9_.-]{1,20}", fullmatch=True),
    "object": json_objects,
    "integer-or-uuid": st.one_of(st.integers(), uuid_texts),
    "conditions": st.one_of(condition_dictionaries, st.lists(texts, max_size=2)),
}


def values(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a shape; trees of conditions end after a few levels."""
    strategy: st.SearchStrategy[Any]
    if shape.name == "ConditionMatch":
        strategy = condition_matches
    elif shape.kind == "struct":
        members = {name: values(member, depth + 1) for name, member in shape.members.items()}
        optional = {n: members.pop(n) for n, m in shape.members.items() if not m.required}
        strategy = st.fixed_dictionaries(members, optional=optional)
    elif shape.kind == "array":
        assert shape.item is not None
        size = 0 if depth > 5 else 2
        strategy = st.lists(values(shape.item, depth + 1), max_size=size) if size else st.just([])
    elif shape.kind == "choice":
        strategy = st.sampled_from(shape.choices)
    else:
        strategy = _SCALARS[shape.kind]
    return st.one_of(st.none(), strategy) if shape.nullable else strategy


def events_of(event_type: str) -> st.SearchStrategy[dict[str, Any]]:
    """Valid events of one type, as a producer sends them."""
    return values(event_shape(event_type))


events: Final = st.sampled_from(EVENT_TYPES).flatmap(events_of)


def in_utc(shape: Shape, value: Any) -> Any:
    """The value as it must be returned: the same, with its times in UTC."""
    if value is None:
        return None
    if shape.kind == "date-time":
        moment = datetime.fromisoformat(value.upper())
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if shape.kind == "array":
        assert shape.item is not None
        return [in_utc(shape.item, item) for item in value]
    if shape.kind == "struct":
        known = shape.members
        return {n: in_utc(known[n], v) if n in known else v for n, v in value.items()}
    return value
