"""Query strings of pages: read and write their parameters. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from service.http.problems import Problem

Pairs = list[tuple[str, str]]

# Some pages repeat the query string in many links, so its length is limited.
MAX_QUERY_LENGTH: Final = 4_000


def read_pairs(raw_query: str) -> Pairs:
    """Return the parameters of a query string; those without a value are dropped."""
    return [(name, value) for name, value in parse_qsl(raw_query) if value]


def read_short(raw_query: str) -> Pairs:
    """Return the parameters as `read_pairs` does, of a query string of limited length.

    Raises:
        Problem: 414 if there are more than `MAX_QUERY_LENGTH` characters.
    """
    if len(raw_query) > MAX_QUERY_LENGTH:
        raise Problem(414, f"the URL of this page takes at most {MAX_QUERY_LENGTH} characters")
    return read_pairs(raw_query)


def write_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the query string of these parameters."""
    return urlencode(list(pairs))


def values_of(pairs: Pairs, name: str) -> list[str]:
    """Return all values of a parameter."""
    return [value for found, value in pairs if found == name]


def first_of(pairs: Pairs, name: str) -> str:
    """Return the first value of a parameter; empty if there is none."""
    return next(iter(values_of(pairs, name)), "")


def without(pairs: Pairs, names: Collection[str]) -> Pairs:
    """Return the parameters except those with these names."""
    return [(name, value) for name, value in pairs if name not in names]


def only(pairs: Pairs, names: Collection[str]) -> Pairs:
    """Return the parameters with these names."""
    return [(name, value) for name, value in pairs if name in names]


def page_links(links: Mapping[str, str], kept: Pairs, name: str = "cursor") -> dict[str, str]:
    """Return the query strings of the previous and next page, by relation.

    `links` are the links of the API, whose cursors are added to the parameters `kept`. `name` is
    the page's own parameter for the cursor.
    """
    return {
        relation: write_pairs([*kept, (name, first_of(read_pairs(links[relation]), "cursor"))])
        for relation in ("prev", "next")
        if relation in links
    }
