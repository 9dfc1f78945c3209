"""Decompresses gzip and Zstandard streams in pieces; data before a defect is not lost.

Pure: chunks in, chunks out. The size of each chunk is bounded at any compression ratio.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import zstandard

from indexing.errors import MergewatchError

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTANDARD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
MAGIC_LENGTH: Final = 4

GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS
_GZIP_OUTPUT_BYTES: Final = 256 * 1024

# zstandard's decompressor returns all output of its input at once, and four bytes of input may
# decompress to a block of 128 KiB. So this much input gives at most 8 MiB of output.
_ZSTANDARD_INPUT_BYTES: Final = 256


class CompressionError(MergewatchError):
    """A compressed stream is corrupt, or ends too early."""


def inflate_gzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress one or more consecutive gzip members; padding with zeros is allowed.

    Raises:
        CompressionError: after all recoverable output has been yielded.
    """
    member = None
    begun = False
    for chunk in chunks:
        left = chunk
        while left:
            if member is None:
                left = left.lstrip(b"\0")
                if not left:
                    break
                member = zlib.decompressobj(GZIP_WINDOW_BITS)
                begun = True
            before = member.copy()
            try:
                yield member.decompress(left, _GZIP_OUTPUT_BYTES)
            except zlib.error as error:
                yield from _salvage(before, left)
                raise CompressionError(f"the gzip data is corrupt ({error})") from error
            if member.eof:
                left = member.unused_data
                member = None
            else:
                left = member.unconsumed_tail
    if member is not None:
        yield member.flush()
    if member is not None or not begun:
        raise CompressionError("the gzip data ends too early")


def inflate_small_gzip(packed: bytes, limit: int) -> bytes | None:
    """Decompress one gzip member; return None if it has more than `limit` bytes.

    Raises:
        CompressionError: the data is not one whole member.
    """
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    try:
        content = member.decompress(packed, limit + 1)
    except zlib.error as error:
        raise CompressionError(f"the gzip data is corrupt ({error})") from error
    if len(content) > limit:
        return None
    if not member.eof or member.unused_data:
        raise CompressionError("the gzip data ends too early, or has more than one member")
    return content


def inflate_zstandard(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress one or more consecutive Zstandard frames.

    Raises:
        CompressionError: after all recoverable output has been yielded.
    """
    decompressor = zstandard.ZstdDecompressor()
    frame = None
    begun = False
    for chunk in chunks:
        for start in range(0, len(chunk), _ZSTANDARD_INPUT_BYTES):
            left = chunk[start : start + _ZSTANDARD_INPUT_BYTES]
            while left:
                frame = frame or decompressor.decompressobj()
                begun = True
                try:
                    yield frame.decompress(left)
                except zstandard.ZstdError as error:
                    raise CompressionError(f"the Zstandard data is corrupt ({error})") from error
                left = b""
                if frame.eof:
                    left = frame.unused_data
                    frame = None
    if frame is not None or not begun:
        raise CompressionError("the Zstandard data ends too early")


def _salvage(member: zlib._Decompress, corrupt: bytes) -> Iterator[bytes]:
    """Yield the output before a defect, which zlib drops in the call that finds the defect."""
    for byte in corrupt:
        try:
            yield member.decompress(bytes((byte,)))
        except zlib.error:
            return
