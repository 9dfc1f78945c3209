"""Formats values for a page: names, times, durations, ratios, strips of verdicts. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.timestamps import parse_timestamp

# Invisible characters that scripts of real languages need.
_JOINERS: Final = "\u200c\u200d"
# Names are split at the separators of packages, classes and folders, so that the end stays visible.
_SEPARATORS: Final = ("::", "/", ".", " \u203a ")
# The start of a test's parameters; separators within the parameters do not split the name.
_PARAMETERS: Final = re.compile(r"[\[( ]")
# The maximum length of a name in a list, which shows one line; names have up to 8,000 bytes.
_BRIEF: Final = 400
_LONG_LEAF: Final = 44
_TAIL: Final = 22

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
# From the largest; less than a minute is in seconds.
_UNITS: Final = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"))

# The parts of JSON text: strings, which may be cut off, brackets, separators, and the rest.
_JSON_PART: Final = re.compile(
    r""""[^"\\]*+(?:\\.?[^"\\]*+)*+"?|\{\}|\[\]|[{}\[\],:]|[^"{}\[\],:\s]+""", re.DOTALL
)

# The width of one verdict in a strip, including the gap after it.
_STEP: Final = 8
_STRIP_HEIGHT: Final = 16
# The newest verdicts of a sequence that the API returns; a strip has room for so many.
_STRIP_SLOTS: Final = 20
_SHAPES: Final = {
    "passed": ("pass", "M{x} 10h6v6h-6z"),
    "failed": ("fail", "M{x} 0h6v16h-6z"),
    "flaky": ("mixed", "M{x} 0h6v7h-6zM{x} 9h6v7h-6z"),
}


def show_text(text: str, *, lines: bool = False) -> str:
    """Escape characters that are invisible, or that change the direction of text.

    With `lines`, line breaks and tabs stay as they are.
    """
    if text.isprintable():
        return text
    if lines:
        text = text.replace("\r\n", "\n")
    kept = _JOINERS + ("\n\t" if lines else "")
    return "".join(
        character
        if character.isprintable() or character in kept
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def indent_json(text: str, length: int) -> str:
    """Lay JSON text out as `json.dumps` does with an indent of two; it may end anywhere.

    Ends soon after `length` characters.
    """
    depth = written = 0
    parts = []
    for found in _JSON_PART.finditer(text):
        part = found[0]
        if part in ("{", "["):
            depth += 1
            part = f"{part}\n{'  ' * depth}"
        elif part in ("}", "]"):
            depth -= 1
            part = f"\n{'  ' * depth}{part}"
        elif part == ",":
            part = f",\n{'  ' * depth}"
        elif part == ":":
            part = ": "
        parts.append(part)
        written += len(part)
        if written > length:
            break
    return "".join(parts)


def start_sentence(text: str) -> str:
    """Return a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def shorten_name(text: str) -> str:
    """Return a name without the middle if it is very long, with invisible characters escaped.

    The end stays, which tells names apart.
    """
    if len(text) > _BRIEF:
        text = f"{text[: _BRIEF // 2]}…{text[-_BRIEF // 2 :]}"
    return show_text(text)


def show_briefly(text: str, length: int = _BRIEF) -> str:
    """Return the beginning of a text, with invisible characters escaped."""
    return show_text(text) if len(text) <= length else f"{show_text(text[:length])}…"


@dataclass(frozen=True, slots=True)
class NameParts:
    """A name in three parts; if there is no room, the head is cut first and the tail last."""

    head: str
    middle: str
    tail: str


def split_name(text: str, *, brief: bool = True) -> NameParts:
    """Split a name into parts, with invisible characters escaped.

    With `brief`, it is shortened as in `shorten_name`.
    """
    shown = shorten_name(text) if brief else show_text(text)
    found = _PARAMETERS.search(shown)
    end = len(shown) if found is None else found.start()
    ends = [shown.rfind(each, 0, end) + len(each) for each in _SEPARATORS if each in shown[:end]]
    at = max(ends, default=0)
    head, leaf = shown[:at], shown[at:]
    if not leaf:
        head, leaf = "", shown
    if len(leaf) <= _LONG_LEAF:
        return NameParts(head, "", leaf)
    return NameParts(head, leaf[:-_TAIL], leaf[-_TAIL:])


def read_moment(value: str | datetime) -> datetime:
    """Parse a time from an API response."""
    return value if isinstance(value, datetime) else parse_timestamp(value)


def show_exactly(moment: datetime) -> str:
    """Format a time to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def show_age(moment: datetime, now: datetime) -> str:
    """Format the time since or until a moment; a date if it is at least 60 days away.

    Whole units since, but the nearest unit until: seven days are not six a second later.
    """
    seconds = (now - moment).total_seconds()
    if abs(seconds) >= 60 * _DAY:
        return f"{moment.day} {moment:%b %Y}"
    if seconds < 0:
        return f"in {_round_time(_to_nearest(-seconds))}"
    return "just now" if seconds < 1 else f"{_round_time(seconds)} ago"


def _to_nearest(seconds: float) -> float:
    """Round seconds up to a minute, then to the nearest multiple of their largest unit."""
    if seconds <= _MINUTE:
        return math.ceil(seconds)
    seconds = math.ceil(seconds / _MINUTE) * _MINUTE
    size = next(size for size, _ in _UNITS if seconds >= size)
    return (seconds + size // 2) // size * size


def _round_time(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}\u00a0{unit}"
    return f"{int(seconds)}\u00a0s"


def show_duration(seconds: float | None) -> str:
    """Format a duration with a few digits, in the unit of the rounded value."""
    if seconds is None:
        return "unknown"
    if 0 < seconds < 0.001:
        return "<\u00a01\u00a0ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}\u00a0ms"
    if seconds < 9.95:
        return f"{seconds:.1f}\u00a0s"
    if seconds < 2 * _MINUTE - 0.5:
        return f"{seconds:.0f}\u00a0s"
    minutes = round(seconds / _MINUTE)
    if minutes < _HOUR // _MINUTE:
        return f"{minutes}\u00a0min"
    hours, minutes = divmod(minutes, _HOUR // _MINUTE)
    return f"{hours}\u00a0h {minutes:02}\u00a0min"


def show_ratio(ratio: float) -> str:
    """Format a ratio in percent; only exact values are shown as 0 % or 100 %."""
    percent = ratio * 100
    if 0 < percent < 0.1:
        return "<\u00a00.1\u00a0%"
    if 99 < percent < 100:
        return ">\u00a099\u00a0%"
    exact = percent in (0, 100) or percent >= 10
    return f"{percent:.0f}\u00a0%" if exact else f"{percent:.1f}\u00a0%"


def show_reason(explanation: str, health: str) -> str:
    """Return the explanation of a health status without the status, which is shown beside it."""
    status, separator, reason = explanation.partition(": ")
    return show_text(reason if separator and status.lower() == health else explanation)


def show_number(number: int) -> str:
    """Format a number with separators between thousands."""
    return f"{number:,}"


def show_count(number: int, noun: str) -> str:
    """Format a number of things; `noun` is the name of one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of verdicts as an image: SVG paths by CSS class, the size, and a label."""

    paths: Sequence[tuple[str, str]]
    width: int
    height: int
    label: str


def draw_strip(verdicts: Sequence[str]) -> Strip:
    """Return the strip of these verdicts, oldest first; the newest is at the right end."""
    paths: dict[str, list[str]] = {}
    start = max(0, _STRIP_SLOTS - len(verdicts))
    for at, verdict in enumerate(verdicts):
        name, shape = _SHAPES.get(verdict, _SHAPES["passed"])
        paths.setdefault(name, []).append(shape.format(x=(start + at) * _STEP))
    counts = [f"{verdicts.count(each)} {each}" for each in _SHAPES if each in verdicts]
    label = "no verdict yet"
    if verdicts:
        number = show_count(len(verdicts), "verdict")
        label = f"{number}: {', '.join(counts)}; newest {verdicts[-1]}"
    width = max(_STRIP_SLOTS, len(verdicts)) * _STEP - 2
    return Strip(
        [(name, "".join(found)) for name, found in paths.items()], width, _STRIP_HEIGHT, label
    )
