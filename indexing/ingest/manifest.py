"""The manifest: a CSV with the CI job facts of a set of reports. Opens no report."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from indexing.accepted_times import check_accepted
from indexing.ci.pull_requests import parse_pull_request
from indexing.clocks import Clock
from indexing.errors import InvalidValueError
from indexing.ingest.junit import Refusal, ReportRequest, check_run, name_file
from indexing.models.executions import Run
from indexing.names import RepositoryName, check_text
from indexing.timestamps import parse_timestamp

REQUIRED_COLUMNS: Final = (
    "file",
    "pipeline_name",
    "job_name",
    "branch",
    "commit",
    "started_at",
    "run_id",
)
OPTIONAL_COLUMNS: Final = ("attempt", "pull_request")

Parsed = TypeVar("Parsed")

_ATTEMPT: Final = re.compile(r"[0-9]{1,10}")

# The longest line: room for five names of the maximum stored length, and a path.
LINE_MAX_BYTES: Final = 64 * 1024


def read_manifest(
    path: Path,
    repository: RepositoryName,
    *,
    clock: Clock,
    framework: str | None = None,
    framework_version: str | None = None,
    language: str | None = None,
    workspace: str | None = None,
) -> Iterator[ReportRequest | Refusal]:
    """Yield a request for each row, or a refusal if the row is invalid.

    Files are relative to the manifest. A blank `started_at`, `attempt` or `pull_request` counts as
    missing. `started_at` is checked against `clock`, in UTC. Unknown columns are ignored.
    `workspace` is that of each `ReportRequest`. A manifest that cannot be read at all gives one
    refusal.
    """
    shown = name_file(path)
    try:
        with path.open("rb") as stream:
            for line, row in _read_rows(stream):
                try:
                    request = _to_request(path.parent, repository, _check_row(row), clock())
                except InvalidValueError as error:
                    yield Refusal(shown, line, str(error))
                else:
                    yield replace(
                        request,
                        framework=framework,
                        framework_version=framework_version,
                        language=language,
                        workspace=workspace,
                    )
    except FileNotFoundError:
        yield Refusal(shown, None, "there is no such file")
    except OSError as error:
        yield Refusal(shown, None, f"cannot be read: {error.strerror or error}")
    except _UnreadableManifestError as error:
        yield Refusal(shown, error.line, str(error))


class _UnreadableManifestError(Exception):
    """The rest of the manifest cannot be read."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _read_rows(stream: BinaryIO) -> Iterator[tuple[int, Mapping[str, str] | csv.Error]]:
    """Yield the last line number of each row, and its cells by column or the error in it."""
    rows = csv.reader(_read_lines(stream), strict=True)
    try:
        columns = next(rows, None)
    except csv.Error as error:
        raise _UnreadableManifestError(rows.line_num, f"not CSV: {error}") from error
    if not columns:
        raise _UnreadableManifestError(None, "the manifest does not begin with a row of columns")
    _check_columns(columns)
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield rows.line_num, error
            continue
        if not cells:
            continue
        if len(cells) != len(columns):
            wrong = csv.Error(f"{len(cells)} cells where the first row names {len(columns)}")
            yield rows.line_num, wrong
            continue
        yield rows.line_num, dict(zip(columns, cells, strict=True))


def _read_lines(stream: BinaryIO) -> Iterator[str]:
    """Yield lines as text; bytes that are not UTF-8 become characters that `check_text` refuses."""
    number = 0
    while line := stream.readline(LINE_MAX_BYTES + 1):
        number += 1
        if len(line) > LINE_MAX_BYTES:
            raise _UnreadableManifestError(number, f"a line of more than {LINE_MAX_BYTES} bytes")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield line.decode(errors="surrogateescape")


def _check_columns(columns: Sequence[str]) -> None:
    missing = [name for name in REQUIRED_COLUMNS if name not in columns]
    if missing:
        raise _UnreadableManifestError(1, f"columns are missing: {', '.join(missing)}")
    used = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS)
    twice = [name for name in used if columns.count(name) > 1]
    if twice:
        raise _UnreadableManifestError(1, f"columns stand there twice: {', '.join(twice)}")


def _check_row(row: Mapping[str, str] | csv.Error) -> Mapping[str, str]:
    if isinstance(row, csv.Error):
        raise InvalidValueError(f"not a row of CSV: {row}")
    used = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS)
    return {name: _in_column(name, check_text, row.get(name, "")) for name in used}


def _to_request(
    folder: Path, repository: RepositoryName, row: Mapping[str, str], now: datetime
) -> ReportRequest:
    number, pull = None, None
    if row["pull_request"].strip():
        number, pull = _in_column("pull_request", parse_pull_request, row["pull_request"])
    started_at = row["started_at"].strip()
    run = Run(
        run_id=row["run_id"],
        attempt=_in_column("attempt", _parse_attempt, row["attempt"].strip() or "1"),
        pipeline_name=row["pipeline_name"],
        job_name=row["job_name"],
        branch=row["branch"],
        commit=row["commit"],
        pull_number=number,
        pull=pull,
    )
    return ReportRequest(
        path=_in_column("file", partial(_locate, folder), row["file"]),
        repository=repository,
        run=check_run(run),
        started_at=_in_column("started_at", partial(_parse_start, now), started_at)
        if started_at
        else None,
    )


def _in_column(name: str, parse: Callable[[str], Parsed], text: str) -> Parsed:
    """Parse a cell; an error names its column."""
    try:
        return parse(text)
    except InvalidValueError as error:
        raise InvalidValueError(f"{name}: {error}") from error


def _parse_start(now: datetime, text: str) -> datetime:
    return check_accepted(parse_timestamp(text), now)


def _parse_attempt(text: str) -> int:
    if not _ATTEMPT.fullmatch(text):
        raise InvalidValueError("must be a whole number")
    return int(text)


def _locate(folder: Path, file: str) -> Path:
    """Return the path of a report. Any path is allowed: the author of a manifest is trusted."""
    if not file.strip():
        raise InvalidValueError("must not be empty")
    return folder / file
