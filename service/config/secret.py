"""The secret that signs cursors and cached values, the same in every process over one store."""

from __future__ import annotations

import hashlib


def choose_secret(configured: str | None, made_by_store: bytes) -> bytes:
    """Return a key from the operator's secret if it is set, else the secret that the store made."""
    if configured is None:
        return made_by_store
    # `person` keeps this key apart from others that may be derived from the same setting.
    # An environment variable may contain any bytes, which Python reads as surrogates.
    text = configured.encode(errors="surrogateescape")
    return hashlib.blake2b(text, person=b"cursor").digest()
