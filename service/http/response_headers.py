"""The headers that every response has."""

from __future__ import annotations

from typing import Final

from multidict import CIMultiDict

REQUEST_ID_HEADER: Final = "X-Request-Id"

# A response that has this header has all of them.
SENTINEL_HEADER: Final = "X-Content-Type-Options"

# For a response that is opened in a browser: the media type is not guessed, no script runs, no page
# can embed it, and no referrer is sent.
RESPONSE_HEADERS: Final = CIMultiDict(
    {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        # Hides the names and versions of the libraries.
        "Server": "mergewatch",
        SENTINEL_HEADER: "nosniff",
    }
)
