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

    The rest of the link is ignored, so that a response cannot send the token to another server.
    """
    for link in _LINK.finditer(header or ""):
        if _NEXT.search(link[2]):
            try:
                return urlsplit(link[1]).query
            except ValueError:
                return None
    return None
