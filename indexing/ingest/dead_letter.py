"""The dead-letter file: refused input as lines of JSON, to be fixed and loaded again."""

from __future__ import annotations

import base64
import codecs
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from indexing.errors import MergewatchError
from indexing.ingest.lines import Line
from indexing.ingest.sources import STANDARD_INPUT

_UTF_8: Final = codecs.getincrementaldecoder("utf-8")

# How every record begins; by this, a dead-letter file is told from other files.
_RECORD_BEGINS: Final = b'{"source":'


class DeadLetterError(MergewatchError):
    """The dead-letter file cannot be written; the message says why."""


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A refused line of a source, with all its errors."""

    source: str
    line: Line
    reasons: tuple[str, ...]

    @property
    def reason(self) -> str:
        """All errors in one sentence."""
        return "; ".join(self.reasons)

    def __str__(self) -> str:
        return f"{self.source}, line {self.line.number}: {self.reason}"


class DeadLetterFile:
    """A file of refused lines; `empty` removes those of an earlier dead-letter file.

    Each record has `source`, `line` (from 1), `offset` (in bytes of the decompressed source),
    `reason`, and `raw`: the line as it was read, or `raw_base64` if it is not UTF-8. If the line
    was not kept whole, the record has `raw_cut` as well.
    """

    def __init__(self, path: Path, sources: Iterable[str] = ()) -> None:
        """Open the file, but refuse to use a source or any file that is not a dead letter.

        Raises:
            DeadLetterError: it would overwrite such a file, or the file cannot be opened.
        """
        self._path = path
        try:
            if any(_is_same(path, source) for source in sources):
                raise DeadLetterError(f"{path}: is one of the files to be read")
            if path.is_file() and not _is_dead_letter(path):
                raise DeadLetterError(f"{path}: holds something else, which would be lost")
            # Not emptied yet: there may be nothing to read.
            self._file = path.open("ab")
            self._is_regular = path.is_file()
        except (OSError, ValueError) as error:
            raise self._failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def empty(self) -> None:
        """Remove the records of an earlier run; call this once a source is open.

        Raises:
            DeadLetterError: as `write` does.
        """
        try:
            if self._is_regular:
                self._file.truncate(0)
        except OSError as error:
            raise self._failure(error) from error

    def write(self, refused: RefusedLine) -> None:
        """Add one record.

        Raises:
            DeadLetterError: the file cannot be written; for example, the disk is full.
        """
        try:
            self._file.write(orjson.dumps(_record(refused), option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Flush buffered records and close the file.

        Raises:
            DeadLetterError: as `write` does.
        """
        try:
            self._file.close()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> DeadLetterError:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return DeadLetterError(f"{self._path}: {reason}")


def _record(refused: RefusedLine) -> dict[str, Any]:
    line = refused.line
    record: dict[str, Any] = {
        # A path may contain bytes that are not UTF-8; Python represents them as lone surrogates.
        "source": refused.source.encode(errors="backslashreplace").decode(),
        "line": line.number,
        "offset": line.offset,
        "reason": refused.reason,
    }
    try:
        # If the line was cut, its last character may be cut too.
        record["raw"] = _UTF_8().decode(line.data, final=not line.cut)
    except UnicodeDecodeError:
        record["raw_base64"] = base64.b64encode(line.data).decode()
    if line.cut:
        record["raw_cut"] = True
    return record


def _is_same(path: Path, source: str) -> bool:
    try:
        other = os.fstat(0) if source == STANDARD_INPUT else Path(source).stat()
        return path.is_file() and os.path.samestat(path.stat(), other)
    except OSError:
        return False


def _is_dead_letter(path: Path) -> bool:
    """Return whether the file is empty or an earlier dead-letter file, so safe to overwrite."""
    with path.open("rb") as file:
        return file.read(len(_RECORD_BEGINS)) in (b"", _RECORD_BEGINS)
