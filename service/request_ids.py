"""The id of a request: the caller's own where it is well-formed."""

from __future__ import annotations

import re
import secrets
from typing import Final

REQUEST_ID_HEADER: Final = "X-Request-Id"
# UUIDs, ULIDs and trace ids. An underscore is left out, so that no application key passes.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9.\-]{1,64}")


def choose_request_id(given: str | None) -> str:
    """The caller's own id where it is well-formed, otherwise a new one."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return secrets.token_hex(16)
