"""Chooses a media type by the client's `Accept` fields (RFC 9110, section 12.5.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, islice
from typing import Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
HTML: Final = "text/html"
ANY: Final = "*/*"

_QUALITY: Final = re.compile(r"\s*q\s*=\s*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)
# The media ranges that include JSON, and how specific each is.
_JSON_RANGES: Final = {JSON: 2, "application/*": 1, ANY: 0}

# How many media ranges of a request are read, and how many parameters of each. Browsers send some
# ten. A request may have a megabyte of commas, and its credential is not verified yet.
_MOST_RANGES: Final = 100
_MOST_PARAMETERS: Final = 10


def choose_row_format(accept: Iterable[str]) -> str | None:
    """Return the media type of a row stream, if the `Accept` fields prefer one to JSON.

    They have to name it in full: a range such as `*/*` means JSON, which most clients expect.
    """
    qualities = _qualities_of(accept)
    rows = [(qualities[name], name) for name in (NDJSON, CSV) if qualities.get(name)]
    if not rows:
        return None
    quality, name = max(rows, key=lambda each: each[0])
    ranges = [(_JSON_RANGES[each], qualities[each]) for each in qualities if each in _JSON_RANGES]
    specific, json_quality = max(ranges, default=(0, 0.0))
    if quality == json_quality:
        # At equal quality, JSON wins if it is named in full as well.
        return None if specific == _JSON_RANGES[JSON] else name
    return name if quality > json_quality else None


def accepts_html(accept: Iterable[str]) -> bool:
    """Return whether the `Accept` fields name HTML in full, as those of browsers do."""
    return bool(_qualities_of(accept).get(HTML))


def _qualities_of(accept: Iterable[str]) -> dict[str, float]:
    qualities: dict[str, float] = {}
    elements = chain.from_iterable(field.split(",", _MOST_RANGES) for field in accept)
    for element in islice(elements, _MOST_RANGES):
        name, *parameters = element.split(";", _MOST_PARAMETERS)
        qualities[name.strip().lower()] = _quality_of(parameters)
    return qualities


def _quality_of(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        found = _QUALITY.fullmatch(parameter)
        if found is not None:
            return float(found[1])
    return 1.0
