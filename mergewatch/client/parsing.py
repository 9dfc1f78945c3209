"""Parses the JSON of responses. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")


# Texts that each row of a list has to have: by these, a CI job passes or fails.
_ROW_TEXTS: Final = {"quarantined_tests": ("test_name", "reason")}


def parse_object(text: bytes, field: str | None) -> dict[str, Any]:
    """Return the JSON object, with exact integers of any size.

    Raises:
        ValueError: the text is no JSON object, or lacks `field`, unless that is `None`.
    """
    # orjson turns integers beyond 64 bits into floats.
    body: object = (json if _LONG_NUMBER.search(text) else orjson).loads(text)
    if not isinstance(body, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004
    if field is not None and field not in body:
        raise ValueError(f"no {field}")
    return body


def parse_rows(text: bytes, field: str) -> list[Any]:
    """Return the rows in this field of a JSON object.

    Raises:
        ValueError: there is no such list of objects, or a row lacks a text that it has to have.
    """
    rows = parse_object(text, field)[field]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{field} is no list of objects")
    if not all(
        isinstance(row.get(name), str) for row in rows for name in _ROW_TEXTS.get(field, ())
    ):
        raise ValueError(f"{field} has an incomplete row")
    return rows
