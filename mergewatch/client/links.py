"""Reads the `Link` header of a page (RFC 8288). Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

# One link: a target in angle brackets and its parameters, up to the next comma outside quotes.
_LINK: Final = re.compile(r'<([^<>]*)>((?:[^,"]|"[^"]*")*)')
_NEXT: Final = re.compile(r';\s*rel\s*=\s*(?:"next"|next)\s*(?:;|$)', re.IGNORECASE)


def next_query(header: str | None) -> str | None:
    """Return the percent-encoded query of the next page, or None on the last page.

    Only the query: a client keeps asking the server that it was given, whatever a response says, so
    that its token is sent to no other.
    """
    for link in _LINK.finditer(header or ""):
        if _NEXT.search(link[2]):
            try:
                return urlsplit(link[1]).query
            except ValueError:
                return None
    return None
