"""The limits of query parameters. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from indexing.errors import InvalidValueError
from indexing.globs import count_cost
from indexing.names import check_stored_name

# The limits of the interface, and our own where it has none.
MAX_VALUES: Final = 100
MAX_VALUE_LENGTH: Final = 2_048
MAX_STARS: Final = 16
# The cost of all patterns of a request: enough for five wildcards in each of a hundred patterns.
# The limits above bound one pattern alone.
MAX_GLOB_COST: Final = 500
MAX_REF_LENGTH: Final = 255
MAX_PER_PAGE: Final = 100
# The rows of a list are counted up to this number, which is enough to narrow a search down.
MAX_TOTAL: Final = 10_000
# A year and a month: a year's range can be compared with the month before it.
MAX_RANGE: Final = timedelta(days=400)
# The range of a list or a series without a start, and that of the event log.
DEFAULT_RANGE: Final = timedelta(days=30)
DEFAULT_EVENT_RANGE: Final = timedelta(days=1)
DEFAULT_PER_PAGE: Final = 10

# Some proxies accept at most 8 KB of headers, and a page has up to four cursors. With a long query,
# cursors are shorter: see `service.http.targets`.
CURSOR_MAX_LENGTH: Final = 1_000


def check_glob(glob: str) -> str:
    """Return one glob, or raise `InvalidValueError` if it exceeds the limits of a search."""
    if len(glob) > MAX_VALUE_LENGTH:
        raise InvalidValueError(f"must have at most {MAX_VALUE_LENGTH} characters")
    if glob.count("*") > MAX_STARS or count_cost(glob) > MAX_GLOB_COST:
        raise InvalidValueError(f"must have at most {MAX_STARS} '*' and {MAX_GLOB_COST} wildcards")
    return glob


def check_stored_glob(glob: str) -> str:
    """Return one glob that matches names which can be stored, as `check_glob` does."""
    return check_glob(check_stored_name(glob))
