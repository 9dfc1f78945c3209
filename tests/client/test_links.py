"""The next page, read from `Link` headers as servers and proxies write them."""

from __future__ import annotations

import pytest

from mergewatch.client.links import next_query


@pytest.mark.parametrize(
    ("header", "query"),
    [
        (None, None),
        ("", None),
        ("<https://x/y?a=1>; rel=last", None),
        ('<https://x/y?a=1>; rel="next"', "a=1"),
        ("<https://x/y?a=1>;REL=next", "a=1"),
        ('</y?a=1>; title="a, b"; rel="next"', "a=1"),
        ('<?a=0>; rel="prev", <?a=2%2C3>; rel="next", <?a=9>; rel="last"', "a=2%2C3"),
        ('<?a=1>; rel="nextish"', None),
        ('<?a=1>; xrel="next"', None),
        ("next", None),
        ('<https://[>; rel="next"', None),
    ],
)
def test_the_next_page_is_found(header: str | None, query: str | None) -> None:
    assert next_query(header) == query
