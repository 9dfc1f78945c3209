"""Generates bodies from the OpenAPI document and mutates them.

Each starts as a body that the document allows, or as a valid event or request, and then grows in
one place: more elements, deeper nesting, longer text. The same seed gives the same bodies.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from hardening.bodies import MAX_BYTES, NDJSON, HostileBody, make_spans, pack
from service.openapi import build_document
from tests import spans
from tests.builders import NOON
from tests.strategies import events

# A placeholder for the grown part.
_HERE: Final = "@here@"
_PACKED_FROM: Final = 10_000
_MIN_BYTES: Final = 256
_MAX_DEPTH: Final = 1_000_000
_CHARACTERS: Final = (b"a", b'\\"', b"\\u0041", b"\\ud83d\\ude00", b"\\ud800", b"\\u0000", b"\xff")
_SCALARS: Final = (
    b"null", b"-1", b"1e308", b"1e999", b"18446744073709551616", b"true", b'""', b"{}", b"[]",
    b'"9999-12-31T23:59:59.999999999+14:00"', b"NaN", b"9" * 5_000,
)  # fmt: skip


def operations() -> list[str]:
    """Return the paths that accept a body."""
    document = orjson.loads(build_document(None, ingest=True))
    return [path for path, methods in document["paths"].items() if "post" in methods]


def make(path: str, count: int, number: int) -> list[HostileBody]:
    """Generate `count` bodies for one path."""
    rng = random.Random(number)
    to = path.rpartition("{repository}/")[2]
    return [
        _grow(f"{path} {n}", to, kind, begin, rng)
        for n, (kind, begin) in enumerate(_beginnings(path, to, count, number))
    ]


def _beginnings(path: str, to: str, count: int, number: int) -> Sequence[tuple[str, Any]]:
    """Return media types with values or bytes; half from the document, half from valid examples."""
    drawn = _draw(_schema_strategy(path), count // 2, number)
    if to == "logs":
        valid = [(NDJSON, value) for value in _draw(events, count - len(drawn), number)]
    else:
        json = orjson.loads(make_spans(number * 1_000, 3, NOON))
        message = spans.make_request(
            [
                # Fixed ids: generated ones would differ from one call to the next.
                spans.make_span(
                    f"generated-{n}", trace_id=bytes([n + 1] * 16), span_id=bytes([n + 1] * 8)
                )
                for n in range(3)
            ]
        )
        kinds = [(spans.JSON, json), (spans.PROTOBUF, message.SerializeToString())]
        valid = [kinds[n % 2] for n in range(count - len(drawn))]
    return [*drawn, *valid]


def _schema_strategy(path: str) -> st.SearchStrategy[tuple[str, Any]]:
    document = schemathesis.openapi.from_dict(orjson.loads(build_document(None, ingest=True)))
    cases: st.SearchStrategy[Any] = document[path]["POST"].as_strategy()
    return cases.map(lambda case: (case.media_type or spans.JSON, case.body))


def _draw(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    found: list[Any] = []

    def keep(value: Any) -> None:
        found.append(value)

    chosen = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seed(number)(chosen(given(strategy)(keep)))()
    return found[:count]


def _grow(name: str, to: str, kind: str, begin: Any, rng: random.Random) -> HostileBody:
    budget = int(math.exp(rng.uniform(math.log(_MIN_BYTES), math.log(MAX_BYTES))))
    if isinstance(begin, (dict, list)):
        data = _grow_value(begin, budget, rng)
    else:
        data = begin if isinstance(begin, bytes) else _as_bytes(begin)
    if to == "logs" or kind == spans.PROTOBUF:
        # Two concatenated protobuf messages merge into one.
        ending = b"\n" if to == "logs" else b""
        data = (data + ending) * rng.choice([1, max(1, budget // (len(data) + 1))])
    if rng.random() < 0.2:
        data = rng.choice(_DAMAGES)(data, rng)
    data = data[:MAX_BYTES] or b"\n"
    packed = len(data) > _PACKED_FROM or rng.random() < 0.3
    kind = kind.replace("*", "plain")
    return HostileBody(name, to, kind, pack(data) if packed else data, packed)


def _grow_value(value: Any, budget: int, rng: random.Random) -> bytes:
    """Put a grown part into one place of the value."""
    holder = {"": value}
    container, place = rng.choice([*_list_places(holder)])
    there = orjson.dumps(_plain(container[place]))
    container[place] = _HERE
    grown = rng.choice(_GROWTHS)(there, budget, rng)
    return orjson.dumps(_plain(holder[""])).replace(f'"{_HERE}"'.encode(), grown, 1)


def _list_places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in it: the container, and the member or index."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            found += _list_places(value[key])
    return found


def _plain(value: Any) -> Any:
    """Reduce a value to what orjson writes: strategies give larger numbers and lone surrogates."""
    if isinstance(value, dict):
        return {_text(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return _text(value)
    return value if not isinstance(value, int) or abs(value) < 2**63 else 2**63 - 1


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


def _as_bytes(value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


def _repeat(there: bytes, budget: int, _: random.Random) -> bytes:
    count = max(1, budget // (len(there) + 1))
    return b"[" + b",".join([there] * count) + b"]"


def _name(there: bytes, budget: int, _: random.Random) -> bytes:
    count = max(1, budget // (len(there) + 11))
    return b"{" + b",".join(b'"m%d":%b' % (n, there) for n in range(count)) + b"}"


def _nest(there: bytes, budget: int, rng: random.Random) -> bytes:
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'{"and":[', b"]}")])
    depth = min(_MAX_DEPTH, max(1, budget // (len(opened) + len(closed))))
    depth = rng.choice([depth, min(depth, 200)])
    return opened * depth + there + closed * depth


def _lengthen(_: bytes, budget: int, rng: random.Random) -> bytes:
    character = rng.choice(_CHARACTERS)
    return b'"' + character * (budget // len(character)) + b'"'


def _exchange(_: bytes, __: int, rng: random.Random) -> bytes:
    return rng.choice(_SCALARS)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(min(8, len(changed))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


_GROWTHS: Final[Sequence[Callable[[bytes, int, random.Random], bytes]]] = (
    _repeat, _repeat, _name, _nest, _lengthen, _exchange,
)  # fmt: skip
_DAMAGES: Final[Sequence[Callable[[bytes, random.Random], bytes]]] = (_cut, _flip)
