"""Reads and writes the JSON text of events without losing anything that a producer wrote.

Pure: converts bytes to values and back. It does not interpret the values.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from indexing.errors import InvalidValueError
from indexing.names import check_text

# Deep enough for any condition tree that a person can read. Validation uses up to a dozen Python
# frames for each level, and the interpreter's limit is 1,000 frames.
MAX_DEPTH: Final = 48
_TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"

# Parsing digits takes quadratic time, and no real number has this many digits.
MAX_INTEGER_DIGITS: Final = 400

# Texts with these escapes are not parsed by orjson: it accepts an escaped NUL, and refuses a lone
# surrogate without reporting where it is.
_ESCAPES: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")

# Integers of 19 digits and more may not fit into 64 bits, and orjson would convert them to floats.
# To find them, every digit is replaced by 0 and all else by a blank; a regular expression that
# counts digits takes ten times as long.
_DIGITS: Final = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_LONG_NUMBER: Final = b"0" * 19

# How many characters of an untrusted text a message repeats.
_SHOWN_LENGTH: Final = 80

MemberPath = tuple[str | int, ...]

# A JSON string, even an unterminated one, so that no text is scanned twice.
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)


def has_more_values(text: bytes, limit: int) -> bool:
    """Return whether a JSON text has more than about `limit` values; it need not be valid."""
    # Strings may contain these marks too. Removing strings is slow, so do it only when needed.
    return _count_marks(text) > limit and _count_marks(_TEXT.sub(b"", text)) > limit


def _count_marks(text: bytes) -> int:
    """Count what comes before values: all but the single value of an object or array."""
    # Without a loop, which takes as long again.
    return text.count(b"{") + text.count(b"[") + text.count(b",")


def decode(text: bytes, max_values: int | None = None) -> Any:
    """Parse one JSON text: integers of any size stay exact, NaN and infinities are refused.

    Raises:
        InvalidValueError: the text is not JSON, is nested deeper than `MAX_DEPTH`, or holds
            more than about `max_values` values.
    """
    try:
        if _ESCAPES.search(text) or _has_long_number(text):
            value = json.loads(
                text.decode(),
                parse_constant=_refuse_constant,
                parse_float=_finite_float,
                parse_int=_short_integer,
            )
        else:
            value = orjson.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidValueError(f"is not UTF-8 from byte {error.start} on") from error
    except RecursionError as error:
        raise InvalidValueError(_TOO_DEEP) from error
    except ValueError as error:
        raise InvalidValueError(f"is not JSON: {error}") from error
    if max_values is not None and has_more_values(text, max_values):
        raise InvalidValueError(f"has more than {max_values} values")
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    return value


def decode_stored(text: bytes) -> Any:
    """Parse JSON text that contains accepted events: integers of any size stay exact."""
    return json.loads(text) if _has_long_number(text) else orjson.loads(text)


def _has_long_number(text: bytes) -> bool:
    return _LONG_NUMBER in text.translate(_DIGITS)


def find_bad_text(value: Any, text: bytes) -> Iterator[tuple[MemberPath, str]]:
    """Yield the path of each text in `value` with NUL or a lone surrogate, and the reason.

    `value` was parsed from `text`.
    """
    return _walk_text(value, ()) if _ESCAPES.search(text) else iter(())


def encode(value: Any, *, sort_keys: bool = False) -> bytes:
    """Write a value from `decode` as compact UTF-8 JSON; integers of any size stay exact."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        # An integer beyond 64 bits: rare, and the standard library writes it exactly.
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys, allow_nan=False
        ).encode()


def in_canonical_order(value: Any) -> Any:
    """Return the value with the members of every object sorted, as JSON objects have no order."""
    if isinstance(value, dict):
        return {key: in_canonical_order(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [in_canonical_order(item) for item in value]
    return value


def show(text: str) -> str:
    """Quote, escape and cut untrusted text, so that it is safe in a one-line message."""
    shown = ascii(text[:_SHOWN_LENGTH])
    more = len(text) - _SHOWN_LENGTH
    return shown if more <= 0 else f"{shown} and {more} characters more"


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise InvalidValueError(_TOO_DEEP)


def _children(value: Any) -> Iterator[Any]:
    """Yield the objects and arrays directly inside a value."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return
    for child in value:
        if isinstance(child, dict | list):
            yield child


def _walk_text(value: Any, path: MemberPath) -> Iterator[tuple[MemberPath, str]]:
    if isinstance(value, str):
        try:
            check_text(value)
        except InvalidValueError as error:
            yield path, str(error)
    elif isinstance(value, dict):
        for key, member in value.items():
            try:
                check_text(key)
            except InvalidValueError as error:
                yield (*path, key), f"the name {error}"
            yield from _walk_text(member, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk_text(item, (*path, index))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _short_integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"an integer has more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is beyond the range of doubles")
    return number
