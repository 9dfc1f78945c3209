"""The operations of the API, and which one a request asks for. Pure."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from service.http.methods import READS


class Operation(Enum):
    """What can be asked and sent, as scopes and cursors name it: five reads, then the writes."""

    EVENTS = "events"
    SEARCH = "search"
    TEST = "test"
    QUARANTINES = "quarantines"
    QUARANTINE = "quarantine"
    SEND_EVENTS = "send-events"
    SEND_TRACES = "send-traces"


_OTHER: Final = "other"
_OPERATIONS: Final = (
    (re.compile(r"/v1/repos/[^/]*/[^/]*/logs"), Operation.EVENTS, Operation.SEND_EVENTS),
    (re.compile(r"/v1/ci/[^/]*/repositories/[^/]*/search/tests"), Operation.SEARCH, None),
    (re.compile(r"/v1/ci/[^/]*/repositories/[^/]*/tests/[^/]+"), Operation.TEST, None),
    (re.compile(r"/v1/ci/[^/]*/repositories/[^/]*/quarantines"), Operation.QUARANTINES, None),
    (re.compile(r"/v1/ci/[^/]*/repositories/[^/]*/quarantines/[^/]+"), Operation.QUARANTINE, None),
    (re.compile(r"/v1/ci/[^/]*/repositories/[^/]*/traces"), None, Operation.SEND_TRACES),
    (re.compile(r"/v1/repos/[^/]*/[^/]*/ci/traces"), None, Operation.SEND_TRACES),
)


def name_operation(method: str, path: str) -> str:
    """The operation that a request asks for by its method and raw path, or `other`."""
    bare = path.partition("?")[0]
    for pattern, read, write in _OPERATIONS:
        if pattern.fullmatch(bare):
            found = read if method in READS else write if method == "POST" else None
            return _OTHER if found is None else found.value
    return _OTHER
