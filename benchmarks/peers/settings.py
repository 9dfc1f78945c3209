"""The environment variables that tell the peer what it runs over."""

from __future__ import annotations

from typing import Final

SQLITE_PATH: Final = "PEER_SQLITE_PATH"
REDIS_URL: Final = "PEER_REDIS_URL"
