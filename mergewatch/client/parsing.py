"""Parses the JSON of responses. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")


def parse_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object, with exact integers of any size.

    Raises:
        ValueError: the text is no JSON object.
    """
    # orjson turns integers beyond 64 bits into floats.
    body: object = (json if _LONG_NUMBER.search(text) else orjson).loads(text)
    if not isinstance(body, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004
    return body
