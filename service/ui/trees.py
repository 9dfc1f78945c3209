"""Turns a JSON value into a tree of printable text, within size limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from indexing.events.json_text import encode
from service.ui.formats import show_briefly, show_count, show_text

# A value nested deeper than this is shown as JSON, because screens are too narrow for more levels.
MAX_DEPTH: Final = 10
_LONG_KEY: Final = 200
# How many members of an object a preview shows, how much of each, and how many items of a list.
_PREVIEWED: Final = 6
_LONG_PREVIEW: Final = 60
_LISTED: Final = 3
_LONG_URL: Final = 1_000


@dataclass(frozen=True, slots=True)
class Node:
    """One line of a tree, and the lines below it. `kind` is text, null, link or group."""

    key: str
    kind: str
    text: str
    children: Sequence[Node] = ()


@dataclass(slots=True)
class Budget:
    """The remaining size of a tree; `is_spent` is set once something was left out."""

    nodes: int
    characters: int
    is_spent: bool = False

    def take(self, text: str) -> str | None:
        """Return the text, cut to the remaining characters; None if no room is left."""
        if self.nodes <= 0 or self.characters <= 0:
            self.is_spent = True
            return None
        self.nodes -= 1
        # Cut first: an escape is up to ten times as long as the character it stands for.
        if len(text) > self.characters:
            self.is_spent = True
            text = f"{text[: self.characters]}…"
        shown = show_text(text, lines=True)
        self.characters -= len(shown)
        return shown


def draw_tree(value: Any, budget: Budget, depth: int = 0) -> list[Node]:
    """Return the nodes of the members of an object or a list."""
    nodes = []
    for key, member in _members(value):
        name = show_briefly(key, _LONG_KEY)
        if isinstance(member, dict | list) and member and depth < MAX_DEPTH:
            if budget.take(key[:_LONG_KEY]) is None:
                break
            children = draw_tree(member, budget, depth + 1)
            nodes.append(Node(name, "group", _size_of(member), children))
            continue
        taken = budget.take(_text_of(member))
        if taken is None:
            break
        nodes.append(Node(name, _kind_of(member, taken), taken))
    return nodes


def preview(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return name and text of the first members that are not null or empty."""
    found = []
    for key, member in value.items():
        if member is None or member in ({}, []):
            continue
        name, text = (show_briefly(each, _LONG_PREVIEW) for each in (key, _summarise(member)))
        found.append((name, text))
        if len(found) == _PREVIEWED:
            break
    return found


def _summarise(value: Any) -> str:
    """Return a value in one line: the first texts of a list, and the size of what has no text."""
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        shown = ", ".join(_text_of(each) for each in value[:_LISTED])
        return shown if len(value) <= _LISTED else f"{shown} and {len(value) - _LISTED} more"
    return _size_of(value) if isinstance(value, dict | list) else _text_of(value)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from ((str(number), member) for number, member in enumerate(value))


def _size_of(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return show_count(len(value), "field" if isinstance(value, dict) else "item")


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _kind_of(value: Any, shown: str) -> str:
    if value is None:
        return "null"
    # Only an uncut, unescaped URL becomes a link, so that its text equals its target.
    if value == shown and shown.isprintable() and shown.startswith(("https://", "http://")):
        return "link" if len(shown) <= _LONG_URL and " " not in shown else "text"
    return "text"
