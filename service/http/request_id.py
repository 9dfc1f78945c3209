"""The id of a request: the client's own if it is well-formed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Final

REQUEST_ID_HEADER: Final = "X-Request-Id"
# UUIDs, ULIDs and trace ids. An underscore is left out, so that no application key passes.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9.\-]{1,64}")

_LENGTH: Final = 32
# One call for many random bytes costs as much as a call for a few.
_MADE_AT_ONCE: Final = 256


def _make_ids() -> Iterator[str]:
    while True:
        text = secrets.token_hex(_MADE_AT_ONCE * _LENGTH // 2)
        for start in range(0, len(text), _LENGTH):
            yield text[start : start + _LENGTH]


# A worker that is forked before it answers anything begins with random bytes of its own.
_ids: Final = _make_ids()


def choose_request_id(headers: Mapping[str, str]) -> str:
    """The client's own id if it is well-formed, otherwise a new one."""
    given = headers.get(REQUEST_ID_HEADER)
    if given is None or not _REQUEST_ID.fullmatch(given):
        return next(_ids)
    # Ids are logged: one that is the credential itself, whatever form that has, is none.
    if headers.get("Authorization", "").strip().rpartition(" ")[2] == given:
        return next(_ids)
    return given
