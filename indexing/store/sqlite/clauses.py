"""The conditions of statements that several lists and counts share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson


def any_of(columns: Mapping[str, Sequence[Any]]) -> tuple[str, list[Any]]:
    """Build the condition that each column has one of its values; without values, any will do."""
    text = ""
    given: list[Any] = []
    for column, values in columns.items():
        if values:
            text += f" AND {column} IN ({', '.join('?' * len(values))})"
            given += values
    return text, given


def json_array(values: Iterable[Any]) -> str:
    """Return the parameter of `json_each(?)` for these values."""
    return orjson.dumps([*values]).decode()
