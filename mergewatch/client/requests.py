"""Paths, queries and bodies of requests, from values that callers pass. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import orjson


def events_path(repository: str, *rest: str) -> str:
    """Return a path below the event log of `owner/repository`."""
    owner, name = _split(repository)
    return "/".join((f"/v1/repos/{owner}/{name}/logs", *rest))


def tests_path(repository: str, *rest: str | UUID) -> str:
    """Return a path below the CI resources of `owner/repository`."""
    owner, name = _split(repository)
    return "/".join((f"/v1/ci/{owner}/repositories/{name}", *(_segment(each) for each in rest)))


def repositories_path(owner: str) -> str:
    """Return the path of the repositories of an owner."""
    return f"/v1/ci/{_segment(owner)}/repositories"


def known(declared: type[Any], values: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values; `declared` is the `TypedDict` of their names.

    The service ignores parameters that it does not know, so it would answer as if a misspelled
    filter were not there.

    Raises:
        TypeError: a name is not declared.
    """
    names = declared.__required_keys__ | declared.__optional_keys__
    for name in values:
        if name not in names:
            raise TypeError(f"there is no parameter {name!r}, only {', '.join(sorted(names))}")
    return values


def encode_query(values: Mapping[str, object]) -> str:
    """Return the percent-encoded query; several values repeat their parameter, None omits it.

    Raises:
        ValueError: a datetime has no timezone, or a text has a lone surrogate.
        TypeError: a value is bytes.
    """
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        several: Iterable[object] = (value,)
        # Also of a set or a generator, although no parameter is declared so.
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            several = value
        pairs += ((name, _text(each)) for each in several if each is not None)
    return urlencode(pairs)


def encode_body(values: Mapping[str, object]) -> bytes:
    """Return the values as JSON.

    Raises:
        ValueError: a text has a lone surrogate, for which orjson raises a TypeError.
    """
    for value in values.values():
        if isinstance(value, str):
            value.encode()
    return orjson.dumps(values)


def _split(repository: str) -> tuple[str, str]:
    owner, slash, name = repository.partition("/")
    if not (owner and slash and name) or "/" in name:
        raise ValueError(f"{repository!r} is not owner/repository")
    return _segment(owner), _segment(name)


def _segment(value: str | UUID) -> str:
    return quote(str(value), safe="")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no timezone")
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        raise TypeError(f"{value!r} is not text")
    return str(value)
