"""What tells this service's own values in a shared cache from all others. Pure.

A seal covers the name that a value is kept under and the generations that it belongs to, so a
value that was altered, moved to another name or outlived by a writer is none.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

SIGNATURE_SIZE: Final = 16


class CacheSigner:
    """Seals values by a key that is derived from the secret that cursors are made with."""

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        # The name keeps this key apart from any other that the same secret makes.
        self._key = hashlib.blake2b(secret, person=b"cache seal").digest()

    def sign(self, name: str, versions: Sequence[bytes], payload: bytes) -> bytes:
        """The payload with its seal before it."""
        return self._mac(name, versions, payload) + payload

    def open(self, name: str, versions: Sequence[bytes], signed: bytes) -> bytes | None:
        """The payload, or nothing where this is not what `seal` gave for the same."""
        payload = signed[SIGNATURE_SIZE:]
        if hmac.compare_digest(signed[:SIGNATURE_SIZE], self._mac(name, versions, payload)):
            return payload
        return None

    def _mac(self, name: str, versions: Sequence[bytes], payload: bytes) -> bytes:
        # All but the payload have a length, so that nothing flows from one into another.
        parts = [name.encode(), *versions]
        mac = hashlib.blake2b(key=self._key, digest_size=SIGNATURE_SIZE)
        mac.update(b"".join(len(part).to_bytes(4, "big") + part for part in parts))
        mac.update(payload)
        return mac.digest()
