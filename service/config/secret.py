"""The secret that signs cursors and cached values, the same in every process over one store."""

from __future__ import annotations

import hashlib


def choose_secret(configured: str | None, made_by_store: bytes) -> bytes:
    """The operator's secret where there is one, otherwise the one that the store made."""
    if configured is None:
        return made_by_store
    # The name keeps this key apart from any other that the same setting may come to make.
    return hashlib.blake2b(configured.encode(), person=b"cursor").digest()
