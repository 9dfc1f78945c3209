"""Charts as shapes of an SVG image, which need no scripts. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

# The size of a sparkline, equal to the size in the style sheet.
_SPARK_WIDTH: Final = 120
_SPARK_HEIGHT: Final = 32
_SPARK_PAD: Final = 2.5

CHART_WIDTH: Final = 760
CHART_HEIGHT: Final = 180
# The share of a day's width that its bar takes.
_BAR_SHARE: Final = 0.72
# The gap between two parts of a bar, which keeps them distinct without colour.
_GAP: Final = 1.2
# A proportion bar: a worse health has a higher part, and each part is wide enough to be seen.
_PROPORTION_WIDTH: Final = 1_000
_PROPORTION_HEIGHT: Final = 12
_HEALTH_HEIGHTS: Final = {"broken": 12, "flaky": 9, "unknown": 5, "healthy": 3}
_LEAST_WIDTH: Final = 28
_PROPORTION_GAP: Final = 14
_STEPS: Final = (1, 2, 5)
_MOST_LINES: Final = 4
# The labels below a chart.
_LABELS: Final = 5
# The units of a scale of durations: each up to a number of seconds, with its length in seconds.
_TIME_UNITS: Final = ((2.0, 0.001, "ms"), (120.0, 1.0, "s"), (7_200.0, 60.0, "min"))
_LARGEST_UNIT: Final = (3_600.0, "h")


class Rect(NamedTuple):
    """A rectangle, from its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Spark:
    """A sparkline: the path of the line, of the area under it, its end point, and its label."""

    line: str
    area: str
    end: tuple[float, float]
    label: str
    width: int = _SPARK_WIDTH
    height: int = _SPARK_HEIGHT


@dataclass(frozen=True, slots=True)
class Proportion:
    """A bar of the tests by health: a rectangle for each health with tests, and the bar's label."""

    parts: Mapping[str, Rect]
    label: str
    width: int = _PROPORTION_WIDTH
    height: int = _PROPORTION_HEIGHT


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars: the rectangles of each series, and the grid lines."""

    parts: Mapping[str, Sequence[Rect]]
    # The value of each grid line and its y coordinate, from the top.
    lines: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations by day: the path of the means, that of dots for the longest, and the grid lines."""

    mean: str
    longest: str
    # The label of each grid line and its y coordinate, from the top.
    lines: Sequence[tuple[str, float]]


def draw_spark(name: str, values: Sequence[float | None]) -> Spark | None:
    """Return the sparkline of these values, oldest first; None if there are none."""
    known = [0 if value is None else value for value in values]
    if not known:
        return None
    most = max(known) or 1
    step = (_SPARK_WIDTH - 4) / len(known)
    room = _SPARK_HEIGHT - 2 * _SPARK_PAD

    def height(value: float) -> float:
        return round(_SPARK_HEIGHT - _SPARK_PAD - value / most * room, 1)

    line = f"M0 {height(known[0])}" + "".join(
        f"V{height(value)}H{round((at + 1) * step, 1)}" for at, value in enumerate(known)
    )
    right = round(len(known) * step, 1)
    base = _SPARK_HEIGHT - 0.5
    first, last = (f"{value:,.6g}" for value in (known[0], known[-1]))
    label = f"{name}, {len(known)} days: {first} at first, {max(known):,.6g} at most, {last} now"
    return Spark(line, f"{line}V{base}H0Z", (right, height(known[-1])), label)


def draw_proportion(counts: Mapping[str, Any]) -> Proportion:
    """Return the bar of these numbers of tests by health, the worst at the left."""
    label = ", ".join(f"{counts.get(health, 0):,} {health}" for health in _HEALTH_HEIGHTS)
    shown = {health: counts[health] for health in _HEALTH_HEIGHTS if counts.get(health, 0) > 0}
    if not shown:
        return Proportion({}, label)
    room = _PROPORTION_WIDTH - _PROPORTION_GAP * (len(shown) - 1)
    total = sum(shown.values())
    widths = {health: max(_LEAST_WIDTH, room * n // total) for health, n in shown.items()}
    # The widest part makes up for the minimum widths and for rounding.
    widest = max(widths, key=widths.__getitem__)
    widths[widest] += room - sum(widths.values())
    parts: dict[str, Rect] = {}
    x = 0
    for health, width in widths.items():
        height = _HEALTH_HEIGHTS[health]
        parts[health] = Rect(x, _PROPORTION_HEIGHT - height, width, height)
        x += width + _PROPORTION_GAP
    return Proportion(parts, label)


def draw_bars(series: Mapping[str, Sequence[float | None]]) -> Bars:
    """Return stacked bars of these series, the first at the bottom; all cover the same days."""
    days = [[value or 0 for value in day] for day in zip(*series.values(), strict=True)]
    top = _choose_top(max(map(sum, days), default=0))
    place = CHART_WIDTH / max(1, len(days))
    width = round(place * _BAR_SHARE, 1)
    parts: dict[str, list[Rect]] = {name: [] for name in series}
    for at, day in enumerate(days):
        x, y = round((at + (1 - _BAR_SHARE) / 2) * place, 1), float(CHART_HEIGHT)
        for name, value in zip(series, day, strict=True):
            size = value / top * CHART_HEIGHT
            if value:
                y -= size
                parts[name].append(Rect(x, round(y, 1), width, round(max(1, size - _GAP), 1)))
    return Bars(parts, _make_lines(top))


def draw_durations(
    means: Sequence[float | None], longest: Sequence[float | None]
) -> Durations | None:
    """Return the chart of these durations in seconds, of the same days; None if there are none.

    The line of the means spans days without a duration.
    """
    known = [seconds for seconds in (*means, *longest) if seconds is not None]
    if not known:
        return None
    most = max(known)
    size, unit = next(
        ((size, unit) for end, size, unit in _TIME_UNITS if most < end), _LARGEST_UNIT
    )
    top = _choose_top(most / size)

    def place(seconds: Sequence[float | None]) -> list[str]:
        width = CHART_WIDTH / len(seconds)
        return [
            f"{round((at + 0.5) * width, 1)} {round(CHART_HEIGHT * (1 - each / size / top), 1)}"
            for at, each in enumerate(seconds)
            if each is not None
        ]

    lines = [(f"{value:,} {unit}", y) for value, y in _make_lines(top)]
    # A path of one point is drawn as a dot, because it ends where it begins.
    mean = "L".join(place(means)) + "h0"
    return Durations(f"M{mean}", "".join(f"M{each}h0" for each in place(longest)), lines)


def spread_labels(count: int) -> list[int]:
    """Return evenly spaced positions of the labels below a chart of `count` days."""
    return [round(at * (count - 1) / (_LABELS - 1)) for at in range(_LABELS)] if count else []


def _make_lines(top: int) -> list[tuple[int, float]]:
    """Return the value of each grid line and its y coordinate, the highest first."""
    values = range(0, top + 1, _choose_step(top))
    return [(value, CHART_HEIGHT * (1 - value / top)) for value in reversed(values)]


def _choose_top(most: float) -> int:
    """Return the top of the scale: a multiple of a round step, not below the highest bar."""
    step = _choose_step(math.ceil(most))
    return max(step, math.ceil(most / step) * step)


def _choose_step(top: int) -> int:
    scale = 1
    while True:
        for step in _STEPS:
            if step * scale * _MOST_LINES >= top:
                return step * scale
        scale *= 10
