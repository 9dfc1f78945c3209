"""Warns at start-up about cluster settings that make some features unavailable."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.failures import EXPENSIVE_QUERIES, PATTERNS_REFUSED

# Transient settings override persistent ones, and those override the node's own file.
_LEVELS: Final = ("transient", "persistent", "defaults")

_log = logging.getLogger(__name__)


async def warn_of_settings(connection: Connection) -> None:
    """Log a warning for each such setting."""
    target = f"/_cluster/settings?include_defaults=true&filter_path=*.{EXPENSIVE_QUERIES}"
    try:
        settings = await connection.request("GET", target)
    except StoreError:
        # The API key may lack the right to read settings; the search then reports the error.
        return
    if not allows_patterns(settings):
        _log.warning("%s", PATTERNS_REFUSED)


def allows_patterns(settings: Mapping[str, Any]) -> bool:
    """Return whether the cluster allows searches by a pattern."""
    for level in _LEVELS:
        found = settings.get(level, {}).get("search", {}).get("allow_expensive_queries")
        if found is not None:
            return str(found).lower() != "false"
    return True
