"""Report files on disk, decompressed and read twice: first to validate, then to load.

Writes nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from indexing.ingest.compression import GZIP_MAGIC
from indexing.junit.cases import RefusedCase, ReportCase, ReportError
from indexing.junit.reader import ByteStream, read_report
from indexing.timestamps import EARLIEST, LATEST, from_microseconds

# A report up to this size stays in memory between the two readings; nearly all reports do.
SMALL_REPORT_BYTES: Final = 8 * 1024 * 1024

# Up to this number of cases, they stay in memory too, about 20 MB, and the report is parsed only
# once.
KEPT_CASES: Final = 20_000

# The most cases in one report. Equal names are numbered, so every name takes memory: about 40 MB
# for this many cases. Large projects have a hundredth of them.
REPORT_MAX_CASES: Final = 5_000_000

# The names are sorted in this many parts: the sorted copy of one part takes little memory.
_CENSUS_SHARDS: Final = 64

_Case = ReportCase | RefusedCase


@dataclass(frozen=True, slots=True)
class _Census:
    """The results of the first reading of a report.

    `repeated` has the hashes of names that occur more than once; a hash collision costs one look-up
    and changes no result. `cases` are all cases, or `None` if they are too many to keep.
    """

    repeated: frozenset[int]
    cases: tuple[_Case, ...] | None


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report that has been read to its end once and is valid.

    `digest` is the SHA-256 of the decompressed document, so a compressed copy is the same report.
    """

    path: Path
    modified_at: datetime
    digest: bytes
    _content: bytes | None
    _census: _Census

    @classmethod
    def examine(cls, path: Path) -> ReportFile:
        """Read and validate the whole file.

        Raises:
            ReportError: it is missing, unreadable, damaged or not a report; the message says which.
        """
        with _as_report_errors():
            with _open(path) as (stream, status):
                head = stream.read(SMALL_REPORT_BYTES + 1)
            modified_at = read_file_time(status.st_mtime_ns)
            if len(head) <= SMALL_REPORT_BYTES:
                census = _take_census(io.BytesIO(head), keep=KEPT_CASES)
                return cls(path, modified_at, hashlib.sha256(head).digest(), head, census)
            del head
            if not stat.S_ISREG(status.st_mode):
                raise ReportError(
                    f"more than {SMALL_REPORT_BYTES} bytes of what is not a regular file"
                )
            with _open(path) as (stream, _):
                hashed = _HashedStream(stream)
                census = _take_census(hashed, keep=0)
            return cls(path, modified_at, hashed.digest(), None, census)

    @property
    def is_in_memory(self) -> bool:
        """Whether its cases can be read whatever happens to the file."""
        return self._census.cases is not None or self._content is not None

    def read_cases(self) -> Iterator[tuple[_Case, int]]:
        """Yield each case with its ordinal, from 0, among the accepted cases of equal name.

        Raises:
            ReportError: the file has changed since `examine`.
        """
        if self._census.cases is not None:
            yield from self._number(self._census.cases)
            return
        if self._content is not None:
            yield from self._number(read_report(io.BytesIO(self._content)))
            return
        with _as_report_errors(), _open(self.path) as (stream, _):
            hashed = _HashedStream(stream)
            yield from self._number(read_report(hashed))
            if hashed.digest() != self.digest:
                raise ReportError("the file changed while it was read; read it again")

    def _number(self, cases: Iterable[_Case]) -> Iterator[tuple[_Case, int]]:
        seen: dict[str, int] = {}
        for case in cases:
            ordinal = 0
            if isinstance(case, ReportCase) and hash(case.test_name) in self._census.repeated:
                ordinal = seen.get(case.test_name, 0)
                seen[case.test_name] = ordinal + 1
            yield case, ordinal


def read_file_time(nanoseconds: int) -> datetime:
    """Return the time of a file, or the nearest one within the years 1 to 9999.

    Some file systems, such as tmpfs, store times outside of these years.
    """
    try:
        return from_microseconds(nanoseconds // 1000)
    except OverflowError:
        return LATEST if nanoseconds > 0 else EARLIEST


class _HashedStream:
    """A stream that computes the digest of everything that is read from it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._state = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        chunk = self._stream.read(size)
        self._state.update(chunk)
        return chunk

    def digest(self) -> bytes:
        return self._state.digest()


def _take_census(stream: ByteStream, keep: int) -> _Census:
    """Read a report to its end; keep its cases if there are no more than `keep`.

    Every case above that number takes eight bytes of memory.
    """
    shards = [array("q") for _ in range(_CENSUS_SHARDS)]
    kept: list[_Case] = []
    count = 0
    for count, case in enumerate(read_report(stream), start=1):
        if count > REPORT_MAX_CASES:
            raise ReportError(f"more than {REPORT_MAX_CASES} test cases")
        if count <= keep:
            kept.append(case)
        if isinstance(case, ReportCase):
            name = hash(case.test_name)
            shards[name % _CENSUS_SHARDS].append(name)
    repeated: set[int] = set()
    for shard in shards:
        before: int | None = None
        for name in sorted(shard):
            if name == before:
                repeated.add(name)
            before = name
    return _Census(frozenset(repeated), tuple(kept) if count == len(kept) else None)


@contextmanager
def _open(path: Path) -> Iterator[tuple[io.BufferedIOBase, os.stat_result]]:
    """Open a file; decompress it if it begins like a gzip file, whatever its name."""
    with path.open("rb") as raw:
        status = os.fstat(raw.fileno())
        if raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked, status
        else:
            yield raw, status


@contextmanager
def _as_report_errors() -> Iterator[None]:
    """Translate errors of the file system and of decompression."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ReportError(f"damaged gzip data: {error}") from error
    except FileNotFoundError as error:
        raise ReportError("there is no such file") from error
    except OSError as error:
        raise ReportError(f"cannot be read: {error.strerror or error}") from error
