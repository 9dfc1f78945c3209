"""The environment variables of the peer, which name its store and cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Variables:
    """The names of the variables; an unset one turns its server off."""

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
