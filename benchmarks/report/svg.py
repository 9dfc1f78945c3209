"""The few shapes of the charts, as SVG text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

# A palette for people with colour blindness too (Okabe and Ito).
COLOURS: Final = (
    "#0072B2",
    "#56B4E9",
    "#D55E00",
    "#E69F00",
    "#999999",
    "#009E73",
    "#CC79A7",
    "#6A3D9A",
    "#B2A100",
    "#000000",
)
FONT_SIZE: Final = 12
ROW: Final = 18


def document(width: float, height: float, title: str, shapes: Sequence[str]) -> str:
    """Draw the whole image on white, so that it is readable on a dark page too."""
    inner = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="{FONT_SIZE}"'
        ' role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{inner}\n</svg>\n'
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False) -> str:
    """Draw a line of text that starts, ends or is centred (`start`, `end`, `middle`) at x."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Draw a filled rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
    )


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """Draw a thin straight line in grey."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#cccccc"/>'


def path(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Draw a line through points, with a dot on each."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'


def legend(x: float, y: float, names: Sequence[str]) -> list[str]:
    """List the names below each other, each with its colour."""
    shapes = []
    for at, name in enumerate(names):
        shapes.append(bar(x, y + at * ROW, FONT_SIZE, FONT_SIZE, colour_of(at)))
        shapes.append(text(x + FONT_SIZE + 6, y + at * ROW + FONT_SIZE - 2, name))
    return shapes


def colour_of(at: int) -> str:
    """Return the colour of series number `at`."""
    return COLOURS[at % len(COLOURS)]
