"""Checks on a raw request target, before it is parsed. Pure."""

from __future__ import annotations

from typing import Final

# The prefix of the dashboard's pages.
UI_PREFIX: Final = "/ui/"

# The targets for monitoring.
MONITORING: Final = frozenset({"/health/live", "/health/ready", "/metrics"})

# Common proxies stop at 8 KiB for the whole request line.
MAX_TARGET_BYTES: Final = 8_000
# The size of `&cursor=…` with the shortest cursor that each list has for a row; those of executions
# take most. The limit excludes it, so that a list whose target has the maximum length can be paged
# through.
CURSOR_BYTES: Final = 95
# The limit of the HTTP parser. A target up to this size is refused without closing the connection.
MAX_PARSED_BYTES: Final = 64 * 1024

# This many characters never take more bytes than the limit.
SHORT_TARGET: Final = MAX_TARGET_BYTES // 4

_CURSOR: Final = "cursor="


def is_too_long(target: str) -> bool:
    """Whether a raw target has to be refused. Its surrogates stand for bytes that are not UTF-8."""
    size = len(target)
    if not target.isascii() and size <= MAX_TARGET_BYTES + CURSOR_BYTES:
        size = len(target.encode("utf-8", "surrogateescape"))
    if size <= MAX_TARGET_BYTES:
        return False
    return size > MAX_TARGET_BYTES + CURSOR_BYTES or _CURSOR not in target
