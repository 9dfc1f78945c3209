"""Signs the values in a shared cache, so that values of any other origin are rejected. Pure.

A signature covers the value, its name and the versions that it was cached under. So it does not
match a value that was altered, moved to another name, or invalidated by a write.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

SIGNATURE_SIZE: Final = 16


class CacheSigner:
    """Signs values with a key that is derived from the cursor secret."""

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        # `person` keeps this key apart from all others that are derived from the same secret.
        self._key = hashlib.blake2b(secret, person=b"cache seal").digest()

    def sign(self, name: str, versions: Sequence[bytes], payload: bytes) -> bytes:
        """Return the payload, preceded by its signature."""
        return self._mac(name, versions, payload) + payload

    def verify(self, name: str, versions: Sequence[bytes], signed: bytes) -> bytes | None:
        """Return the payload; `None` if `sign` did not make it for the same name and versions."""
        payload = signed[SIGNATURE_SIZE:]
        if hmac.compare_digest(signed[:SIGNATURE_SIZE], self._mac(name, versions, payload)):
            return payload
        return None

    def _mac(self, name: str, versions: Sequence[bytes], payload: bytes) -> bytes:
        # Each part but the payload is preceded by its length, so that the parts cannot be confused.
        parts = [name.encode(), *versions]
        mac = hashlib.blake2b(key=self._key, digest_size=SIGNATURE_SIZE)
        mac.update(b"".join(len(part).to_bytes(4, "big") + part for part in parts))
        mac.update(payload)
        return mac.digest()
