"""The two charts: ratios as bars, and costs over growing stores as lines. Pure.

Both have logarithmic scales, since values differ by up to a thousand times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.report import svg

_LEFT: Final = 300
_WIDTH: Final = 560
_TOP: Final = 40
_BAR: Final = 9
_GAP: Final = 12
_HEIGHT: Final = 320


def bars(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Draw groups of bars; each bar is a ratio of at most about 1."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    values = [value for group in groups.values() for value in group.values()]
    low = min(-1, math.floor(math.log10(min(values))))
    high = max(0, math.ceil(math.log10(max(values))))

    def across(value: float) -> float:
        return _WIDTH * (math.log10(value) - low) / (high - low)

    shapes = [svg.text(10, 22, title, bold=True)]
    y = _TOP + len(names) * svg.ROW + 2 * _GAP
    shapes += svg.legend(10, _TOP, names)
    bottom = y + sum(len(group) * _BAR + _GAP for group in groups.values())
    for power in range(low, high + 1):
        x = _LEFT + across(10.0**power)
        shapes.append(svg.line(x, y - 4, x, bottom))
        shapes.append(svg.text(x, bottom + 16, f"{10.0**power:g}", anchor="middle"))
    for group_name, group in groups.items():
        middle = y + len(group) * _BAR / 2 + svg.FONT_SIZE / 3
        shapes.append(svg.text(_LEFT - 8, middle, group_name, anchor="end"))
        for name, value in group.items():
            colour = svg.colour_of(names.index(name))
            shapes.append(svg.bar(_LEFT, y, max(across(value), 1), _BAR - 1, colour))
            y += _BAR
        y += _GAP
    return svg.document(_LEFT + _WIDTH + 40, bottom + 30, title, shapes)


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """Draw one line for each series of (size, cost)."""
    points = [point for found in series.values() for point in found]
    x_low, x_high = _powers([x for x, _ in points])
    y_low, y_high = _powers([y for _, y in points])

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = math.log10(point[0]), math.log10(point[1])
        return (
            60 + _WIDTH * (x - x_low) / (x_high - x_low),
            _TOP + _HEIGHT * (y_high - y) / (y_high - y_low),
        )

    shapes = [svg.text(10, 22, title, bold=True)]
    for power in range(x_low, x_high + 1):
        x, _ = place((10.0**power, 10.0**y_low))
        shapes.append(svg.line(x, _TOP, x, _TOP + _HEIGHT))
        shapes.append(svg.text(x, _TOP + _HEIGHT + 16, f"{10**power:,}", anchor="middle"))
    for power in range(y_low, y_high + 1):
        _, y = place((10.0**x_low, 10.0**power))
        shapes.append(svg.line(60, y, 60 + _WIDTH, y))
        shapes.append(svg.text(54, y + 4, f"{10.0**power:g}", anchor="end"))
    shapes.append(svg.text(60, _TOP - 6, unit))
    for at, found in enumerate(series.values()):
        shapes.append(svg.path([place(point) for point in found], svg.colour_of(at)))
    below = _TOP + _HEIGHT + 30
    shapes += svg.legend(60, below, list(series))
    return svg.document(60 + _WIDTH + 60, below + len(series) * svg.ROW + 10, title, shapes)


def _powers(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around all values, at least one apart."""
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))
