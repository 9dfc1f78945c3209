"""Ids of events in a stream: encrypted positions in the order of arrival. Pure.

The sequence of a store counts the events of all tenants, so an id encrypts it. It is an
authenticated encryption with a synthetic initialization vector, as in RFC 5297: the vector is a MAC
of the text, and seeds the key stream. An event has the same id in every process. The key depends
on the store, and the MAC on the repository, so an id of one repository is invalid in another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
from typing import Final

from indexing.models.arrivals import ArrivalKey

_VECTOR_SIZE: Final = 16
SALT_SIZE: Final = 8
_NO_SALT: Final = bytes(SALT_SIZE)
_PLACE: Final = struct.Struct(">qqq")
_TEXT_SIZE: Final = _PLACE.size + SALT_SIZE
# 48 bytes are base64 without padding.
_ID: Final = re.compile(r"[0-9A-Za-z_-]{64}")


class EventIds:
    """Writes and reads the ids of one store's events; the key is derived from the cursor secret."""

    __slots__ = ("_mac", "_stream")

    def __init__(self, secret: bytes, store_id: str) -> None:
        # `person` keeps these keys apart from all others that are derived from the same secret.
        key = hashlib.blake2b(secret, person=b"event ids").digest()
        own = hashlib.blake2b(store_id.encode(), key=key).digest()
        self._mac = hashlib.blake2b(key=own, digest_size=_VECTOR_SIZE, person=b"event id mac")
        self._stream = hashlib.blake2b(key=own, digest_size=_TEXT_SIZE, person=b"event id text")

    def write(self, repository_id: bytes, place: ArrivalKey, salt: bytes = _NO_SALT) -> str:
        """Return the id of that place for readers of the repository.

        A random `salt` of `SALT_SIZE` bytes hides whether two places are equal, and so whether
        anything arrived for others in between.
        """
        text = _PLACE.pack(*place) + salt
        vector = self._vector_of(repository_id, text)
        return base64.urlsafe_b64encode(vector + self._mask(vector, text)).decode()

    def read(self, repository_id: bytes, event_id: str) -> ArrivalKey | None:
        """Return the place; `None` if `write` did not make this id for the repository."""
        if not _ID.fullmatch(event_id):
            return None
        data = base64.urlsafe_b64decode(event_id)
        vector = data[:_VECTOR_SIZE]
        text = self._mask(vector, data[_VECTOR_SIZE:])
        if not hmac.compare_digest(vector, self._vector_of(repository_id, text)):
            return None
        return ArrivalKey(*_PLACE.unpack_from(text))

    def _vector_of(self, repository_id: bytes, text: bytes) -> bytes:
        mac = self._mac.copy()
        # Both parts have fixed lengths, so they cannot be confused.
        mac.update(repository_id + text)
        return mac.digest()

    def _mask(self, vector: bytes, text: bytes) -> bytes:
        stream = self._stream.copy()
        stream.update(vector)
        mixed = int.from_bytes(stream.digest()) ^ int.from_bytes(text)
        return mixed.to_bytes(_TEXT_SIZE)
