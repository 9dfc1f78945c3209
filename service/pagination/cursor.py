"""Cursors: a place in a list as opaque, authenticated text. Pure: values in, values out.

A cursor is `payload + MAC` in base64url. The MAC also covers the list that the cursor belongs to
(operation, repository and filters), so the cursor need not contain these.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, Generic, TypeVar

from indexing.errors import MergewatchError
from indexing.names import RepositoryName
from indexing.timestamps import EARLIEST, from_microseconds, to_microseconds
from service.schemas.limits import CURSOR_MAX_LENGTH

K = TypeVar("K")

# Returns the cursor of a packed key, or of an end of the list, and of a direction.
CursorWriter = Callable[[bytes | None, bool], str]

# Half of a SHA-256 cannot be guessed within the life of any key.
_MAC_SIZE: Final = 16
_STORE_SIZE: Final = 8

_BACKWARD: Final = 1
_HAS_KEY: Final = 2
_HAS_TIME_RANGE: Final = 4

_FLAGS: Final = [bytes([flags]) for flags in range(2 * _HAS_TIME_RANGE)]

_TIME_RANGE: Final = struct.Struct(">qq")

# RFC 4648, section 5.
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


# The bytes that base64, the flags, the store and the MAC leave for the key of a row. Cursors
# with a time range have 16 bytes more, but the keys of those lists have at most 24.
KEY_MAX_SIZE: Final = CURSOR_MAX_LENGTH * 3 // 4 - (1 + _STORE_SIZE + _MAC_SIZE)


class InvalidCursorError(MergewatchError):
    """The text is not a cursor of this list: forged, altered, or of another list."""


class OtherStoreError(MergewatchError):
    """The cursor is authentic, but belongs to another store."""


@dataclass(frozen=True, slots=True)
class KeyCodec(Generic[K]):
    """Encodes the sort keys of one list as bytes, and decodes them.

    `shorten` returns the shortest bytes that identify the same row of that repository.
    """

    pack: Callable[[K], bytes]
    unpack: Callable[[bytes], K]
    shorten: Callable[[RepositoryName, bytes], bytes] = lambda _, packed: packed


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The time range of a list, which the first page fixes for all others."""

    start: datetime
    end: datetime

    @classmethod
    def fill_in(
        cls, start: datetime | None, end: datetime | None, latest: datetime, length: timedelta
    ) -> TimeRange:
        """Return the range between two bounds, each of which may be missing.

        Without an end, it is up to `latest`; without a start, it has that `length`. A range with
        only a start, which is after `latest`, is empty.
        """
        if end is None:
            end = latest if start is None else max(latest, start)
        if start is None:
            start = end - length if end - EARLIEST >= length else EARLIEST
        return cls(start, end)


@dataclass(frozen=True, slots=True)
class Position(Generic[K]):
    """Where a page lies: next to `key`, or at an end of the list if `key` is `None`."""

    key: K | None = None
    backward: bool = False
    time_range: TimeRange | None = None


@dataclass(frozen=True, slots=True)
class Ends(Generic[K]):
    """The sort keys of the first and last row of a page, and whether there are more rows beyond."""

    first: K | None = None
    last: K | None = None
    has_previous: bool = False
    has_next: bool = False


# The ends of an answer that is not a page of a list.
NO_ENDS: Final[Ends[bytes]] = Ends()


@dataclass(frozen=True)
class CursorSigner:
    """Signs cursors with a secret, for the store that the rows are in."""

    secret: bytes
    store_id: str

    def mac(self, list_id: bytes, payload: bytes) -> bytes:
        """Return the MAC of a payload within one list: half of its HMAC with SHA-256."""
        state = self._keyed.copy()
        # The id of the list has a fixed length, so it cannot be confused with the payload.
        state.update(list_id + payload)
        return state.digest()[:_MAC_SIZE]

    @cached_property
    def _keyed(self) -> hmac.HMAC:
        """The HMAC before any payload; to begin from the secret takes longer."""
        return hmac.new(self.secret, digestmod="sha256")

    @cached_property
    def store(self) -> bytes:
        """A short digest of the store's id."""
        return hashlib.blake2b(self.store_id.encode(), digest_size=_STORE_SIZE).digest()


def identify_list(operation: str, repository_key: str, filters: bytes) -> bytes:
    """Return 32 bytes that identify the list of a cursor. `filters` is canonical."""
    # Neither an operation nor a repository can contain a NUL.
    return hashlib.sha256(f"{operation}\0{repository_key}\0".encode() + filters).digest()


def make_cursor_writer(
    signer: CursorSigner, list_id: bytes, time_range: TimeRange | None
) -> CursorWriter:
    """Return a function that writes the cursors of a list, which share a time range.

    A cursor has at most `CURSOR_MAX_LENGTH` characters. Its key is packed by the `KeyCodec` that
    will read it.
    """
    common, beginning = 0, signer.store
    if time_range is not None:
        common = _HAS_TIME_RANGE
        start, end = to_microseconds(time_range.start), to_microseconds(time_range.end)
        beginning += _TIME_RANGE.pack(start, end)

    def write(key: bytes | None, backward: bool) -> str:  # noqa: FBT001 - as in `Position`
        flags = common | (_BACKWARD if backward else 0) | (0 if key is None else _HAS_KEY)
        payload = b"".join((_FLAGS[flags], beginning, key or b""))
        return _encode(payload + signer.mac(list_id, payload))

    return write


def read_cursor(signer: CursorSigner, list_id: bytes, codec: KeyCodec[K], text: str) -> Position[K]:
    """Return the position of a cursor.

    Raises:
        InvalidCursorError: it was not made with this secret, for this list.
        OtherStoreError: it was made for another store.
    """
    data = _decode(text)
    payload, mac = data[:-_MAC_SIZE], data[-_MAC_SIZE:]
    if not hmac.compare_digest(mac, signer.mac(list_id, payload)):
        raise InvalidCursorError("must be a cursor of this endpoint, used with the same filters")
    # From here on the payload is our own.
    flags, store, rest = payload[0], payload[1 : 1 + _STORE_SIZE], payload[1 + _STORE_SIZE :]
    if store != signer.store:
        raise OtherStoreError("the cursor belongs to another store")
    time_range = None
    if flags & _HAS_TIME_RANGE:
        start, end = _TIME_RANGE.unpack_from(rest)
        time_range = TimeRange(from_microseconds(start), from_microseconds(end))
        rest = rest[_TIME_RANGE.size :]
    key = codec.unpack(rest) if flags & _HAS_KEY else None
    return Position(key, bool(flags & _BACKWARD), time_range)


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursorError("is not a well-formed cursor") from error
    # Several texts decode to the same bytes (padding, unused bits); only one is accepted.
    if _encode(data) != text:
        raise InvalidCursorError("is not a well-formed cursor")
    return data


def _encode(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).translate(_URL_SAFE, b"=").decode()
