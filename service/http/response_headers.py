"""The headers that every response has, whatever it answers."""

from __future__ import annotations

from typing import Final

from multidict import CIMultiDict

REQUEST_ID_HEADER: Final = "X-Request-Id"

# A response that has this header has all of them.
SENTINEL_HEADER: Final = "X-Content-Type-Options"

# For the few who look at an answer in a browser: it is shown as what it is, runs nothing, is put
# into no other page, and tells nobody where it came from.
RESPONSE_HEADERS: Final = CIMultiDict(
    {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        # In place of the names and versions of what this is built on.
        "Server": "mergewatch",
        SENTINEL_HEADER: "nosniff",
    }
)
