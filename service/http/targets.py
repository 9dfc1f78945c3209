"""What can be told of a raw request target: whose it is, and whether it is too long. Pure."""

from __future__ import annotations

from typing import Final

# The pages of the dashboard.
UI_PREFIX: Final = "/ui/"

# The pages for monitoring.
MONITORING: Final = frozenset({"/health/live", "/health/ready", "/metrics"})

# Common proxies stop at 8 KiB for the whole request line.
MAX_TARGET_BYTES: Final = 8_000
# What the shortest cursor of any list adds, as `&cursor=…`. It comes on top, so that a list that
# was asked for with the longest target can be paged through.
CURSOR_BYTES: Final = 84
# Where the HTTP parser itself stops. Up to here a connection outlives the refusal.
MAX_PARSED_BYTES: Final = 64 * 1024

# So many characters take no more bytes than that, whatever they are.
SHORT_TARGET: Final = MAX_TARGET_BYTES // 4

_CURSOR: Final = "cursor="


def is_too_long(target: str) -> bool:
    """Whether a raw target has to be refused, its surrogates being bytes that are not UTF-8."""
    size = len(target)
    if not target.isascii() and size <= MAX_TARGET_BYTES + CURSOR_BYTES:
        size = len(target.encode("utf-8", "surrogateescape"))
    if size <= MAX_TARGET_BYTES:
        return False
    return size > MAX_TARGET_BYTES + CURSOR_BYTES or _CURSOR not in target
