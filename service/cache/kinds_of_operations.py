"""The kind of the cached answers of each operation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from service.cache.keys import Kind
from service.http.operations import Operation

# The operations whose path identifies the answer: it is looked up together with the credential.
NAMED_BY_PATH: Final[Mapping[Operation, Kind]] = {
    Operation.TEST: Kind.TEST,
    Operation.QUARANTINE: Kind.QUARANTINE,
}

# The operations whose query is part of the key.
KINDS_OF_LISTS: Final[Mapping[Operation, Kind]] = {
    Operation.SEARCH: Kind.SEARCH,
    Operation.QUARANTINES: Kind.QUARANTINES,
    Operation.TEST_STATES: Kind.TEST_STATES,
    Operation.EVENTS: Kind.EVENTS,
    Operation.STATS: Kind.TREND,
    Operation.TEST_STATS: Kind.TREND,
    Operation.GROUPS: Kind.GROUPS,
    Operation.TRANSITIONS: Kind.TREND,
}
