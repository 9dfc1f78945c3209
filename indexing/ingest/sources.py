"""Opens sources of lines: files and standard input, compressed or not, as streams.

It does not parse the lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import Final, cast

from indexing.errors import MergewatchError
from indexing.ingest.compression import (
    GZIP_MAGIC,
    MAGIC_LENGTH,
    ZSTANDARD_MAGIC,
    CompressionError,
    inflate_gzip,
    inflate_zstandard,
)
from indexing.ingest.lines import Line, LineSplitter

STANDARD_INPUT: Final = "-"
_CHUNK_BYTES: Final = 64 * 1024


class SourceError(MergewatchError):
    """A source cannot be opened; the message names it and says why."""


class Source:
    """An open stream of lines.

    `size` is the size of the file on disk, if known, and `bytes_read` how much of it has been read:
    a progress bar needs both.
    """

    def __init__(self, name: str, stream: BufferedIOBase, size: int | None = None) -> None:
        self.name = name
        self.size = size
        self.bytes_read = 0
        self._stream = stream

    def lines(self) -> Iterator[Line]:
        """Yield all lines; if the stream breaks, the last line carries the defect."""
        splitter = LineSplitter()
        try:
            for chunk in self._unpacked():
                yield from splitter.feed(chunk)
        except CompressionError as error:
            yield from splitter.finish(f"{error}; nothing after this could be read")
        except OSError as error:
            yield from splitter.finish(f"reading failed: {error.strerror}")
        else:
            yield from splitter.finish()

    def _unpacked(self) -> Iterator[bytes]:
        """Yield chunks of text; the name or the first bytes show the compression."""
        raw = self._raw()
        head = b""
        for chunk in raw:
            head += chunk
            if len(head) >= MAGIC_LENGTH:
                break
        chunks = chain((head,), raw)
        if head.startswith(GZIP_MAGIC) or self.name.endswith(".gz"):
            return inflate_gzip(chunks)
        if head.startswith(ZSTANDARD_MAGIC) or self.name.endswith(".zst"):
            return inflate_zstandard(chunks)
        return chunks

    def _raw(self) -> Iterator[bytes]:
        # `read1` returns what is available, so lines of a pipe are read as they arrive.
        while chunk := self._stream.read1(_CHUNK_BYTES):
            self.bytes_read += len(chunk)
            yield chunk


@contextmanager
def open_source(path: str) -> Iterator[Source]:
    """Open a file, or standard input for `-`.

    Raises:
        SourceError: the file does not exist, is a directory, or is not readable.
    """
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise SourceError("standard input is closed")
        yield Source(STANDARD_INPUT, cast(BufferedIOBase, sys.stdin.buffer))
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - closed below, where errors are not ours
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(f"{path}: {reason}") from error
    with stream:
        # A named pipe has the size 0, which means that its size is unknown.
        yield Source(path, stream, os.fstat(stream.fileno()).st_size or None)
