"""Query strings of pages: what they pass on to the API, and links that change a part. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from service.http.problems import Problem

Pairs = list[tuple[str, str]]

# For pages of many links to themselves with one thing changed, which grow with what they repeat.
MAX_QUERY_LENGTH: Final = 2_000


def read_pairs(raw_query: str) -> Pairs:
    """The parameters of a query string; those without a value do not filter."""
    return [(name, value) for name, value in parse_qsl(raw_query) if value]


def read_short(raw_query: str) -> Pairs:
    """As `read_pairs`.

    Raises:
        Problem: 414 with more than `MAX_QUERY_LENGTH` characters.
    """
    if len(raw_query) > MAX_QUERY_LENGTH:
        raise Problem(414, f"the URL of this page takes at most {MAX_QUERY_LENGTH} characters")
    return read_pairs(raw_query)


def write_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """The query string of these parameters."""
    return urlencode(list(pairs))


def values_of(pairs: Pairs, name: str) -> list[str]:
    """All values of a parameter."""
    return [value for found, value in pairs if found == name]


def first_of(pairs: Pairs, name: str, default: str = "") -> str:
    """The first value of a parameter."""
    return next(iter(values_of(pairs, name)), default)


def without(pairs: Pairs, names: Collection[str]) -> Pairs:
    """The parameters but those of these names."""
    return [(name, value) for name, value in pairs if name not in names]


def only(pairs: Pairs, names: Collection[str]) -> Pairs:
    """The parameters of these names."""
    return [(name, value) for name, value in pairs if name in names]


def page_links(links: Mapping[str, str], kept: Pairs, name: str = "cursor") -> dict[str, str]:
    """The query strings of the neighbouring pages by relation: what is kept, and the cursor.

    `links` are those of the API; `name` is what the page calls the cursor.
    """
    return {
        relation: write_pairs([*kept, (name, first_of(read_pairs(links[relation]), "cursor"))])
        for relation in ("prev", "next")
        if relation in links
    }
