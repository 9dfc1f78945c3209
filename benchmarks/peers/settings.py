"""The environment variables that say what a service runs over: the peer's own names for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Variables:
    """The names of the variables; what one is unset for is not used."""

    sqlite_path: str
    redis_url: str
    elasticsearch_url: str
    elasticsearch_prefix: str


PEER_SETTINGS: Final = Variables(
    sqlite_path="PEER_SQLITE_PATH",
    redis_url="PEER_REDIS_URL",
    elasticsearch_url="PEER_ELASTICSEARCH_URL",
    elasticsearch_prefix="PEER_ELASTICSEARCH_PREFIX",
)
