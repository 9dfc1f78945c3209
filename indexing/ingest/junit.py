"""Loads JUnit report files into a store; a damaged report is refused as a whole. Parses no XML."""

from __future__ import annotations

import ntpath
import os
import posixpath
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from indexing.accepted_times import AcceptedTimes, accepted_times, check_accepted
from indexing.ahead import one_ahead
from indexing.clocks import Clock
from indexing.errors import InvalidValueError
from indexing.identifiers import derive_identity_id, derive_junit_execution_id
from indexing.ingest.counts import IngestCount
from indexing.ingest.report_files import ReportFile
from indexing.ingest.report_folders import find_reports
from indexing.junit.cases import RefusedCase, ReportCase, ReportError
from indexing.models.executions import MAX_ATTEMPT, Execution, Run
from indexing.models.repositories import Repository
from indexing.names import RepositoryName, check_stored_name
from indexing.store.interface import ExecutionCount, Steps
from indexing.timestamps import format_timestamp
from indexing.yielding import LoopYielder

# The executions in one call of the store: enough to make its fixed cost negligible, few enough that
# readers wait only milliseconds. Small reports share a call: some tools write one for each class.
BATCH_EXECUTIONS: Final = 2_000
# The size of packed stack traces, in bytes, and of messages, in characters, from which a batch is
# full, to bound its memory.
BATCH_TEXT: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A report file or a folder of them, with the facts of its CI job.

    `started_at`, if set, is the time of all executions. `workspace` is the folder that the
    repository is checked out into: paths of test files within it become relative to it.
    """

    path: Path
    repository: RepositoryName
    run: Run
    started_at: datetime | None = None
    framework: str | None = None
    framework_version: str | None = None
    language: str | None = None
    workspace: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused file, or one refused line of it."""

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{where}: {self.reason}"


class ReportProgress(Protocol):
    """Called after each file with the number of files done and the number of all files."""

    def __call__(self, done: int, total: int | None) -> None: ...


class ExecutionSink(Protocol):
    """The destination of executions: the part of `Writer` that a report needs, or a remote service.

    An execution that `write_results` refuses counts neither as written nor as unchanged.
    """

    async def ensure_repository(self, name: RepositoryName) -> Repository | None: ...

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount: ...

    async def refresh_tests(
        self, now: datetime, progress: Steps | None, repository: RepositoryName | None
    ) -> int: ...


def check_run(run: Run) -> Run:
    """Return the run, or raise `InvalidValueError` naming the member that cannot be stored."""
    for name in ("pipeline_name", "job_name", "branch", "commit", "run_id"):
        try:
            check_stored_name(getattr(run, name))
        except InvalidValueError as error:
            raise InvalidValueError(f"{name} {error}") from error
    if not 1 <= run.attempt <= MAX_ATTEMPT:
        raise InvalidValueError(f"attempt must be 1 to {MAX_ATTEMPT}")
    return run


def check_started_at(started_at: datetime | None, now: datetime) -> datetime | None:
    """Return the time, or raise `InvalidValueError` if it is outside the accepted range."""
    try:
        return None if started_at is None else check_accepted(started_at, now)
    except InvalidValueError as error:
        raise InvalidValueError(f"started_at {error}") from error


async def ingest_reports(
    sink: ExecutionSink,
    requests: Iterable[ReportRequest | Refusal],
    *,
    refuse: Callable[[Refusal], None],
    clock: Clock,
    progress: ReportProgress | None = None,
    judged: Steps | None = None,
) -> IngestCount:
    """Write the executions of all reports, then refresh the derived data.

    `clock` returns the time, in UTC: new automatic quarantines start at it, and dates are checked
    against it. `progress` is called after each file, `judged` for the tests refreshed at the end.

    Nothing is stored of a file that cannot be read to its end; it counts as one read and one
    refused record, and so does a `Refusal` among the requests. Of a file that is too large for
    memory and changes while it is read, the batches before the change stay stored. If a single case
    cannot be stored, only that case is refused. The call is idempotent, even after it was killed.

    Raises:
        StoreError: the store failed; executions that were written before stay.
    """
    ingest = _Ingest(sink, refuse, clock)
    batches = ingest.read_batches([each for one in requests for each in _expand(one)], progress)
    # The store writes one batch while the next one is read.
    async with aclosing(one_ahead(batches)) as ahead:
        async for batch in ahead:
            await ingest.write(batch)
    # Refresh only these repositories, because this call changed no others.
    for repository in ingest.repositories:
        await sink.refresh_tests(clock(), judged, repository)
    return ingest.count


@dataclass(slots=True)
class _Batch:
    """Executions to write together: `size` of them; `BATCH_TEXT` says what `text` counts."""

    repository: RepositoryName
    results: dict[Run, list[Execution]] = field(default_factory=dict)
    size: int = 0
    text: int = 0

    def add(self, run: Run, execution: Execution) -> None:
        self.results.setdefault(run, []).append(execution)
        self.size += 1
        self.text += len(execution.failure_message or "") + len(execution.failure_trace or b"")

    @property
    def is_full(self) -> bool:
        return self.size >= BATCH_EXECUTIONS or self.text >= BATCH_TEXT


class _Ingest:
    """The state of one call: the counts, and the repositories that it registered."""

    def __init__(
        self,
        sink: ExecutionSink,
        refuse: Callable[[Refusal], None],
        clock: Clock,
    ) -> None:
        self.count = IngestCount()
        self._sink = sink
        self._clock = clock
        self._report_refusal = refuse
        self._known: dict[str, RepositoryName] = {}

    @property
    def repositories(self) -> Sequence[RepositoryName]:
        """The repositories registered in this call; each may have new executions."""
        return tuple(self._known.values())

    async def read_batches(
        self, requests: Sequence[ReportRequest | Refusal], progress: ReportProgress | None
    ) -> AsyncGenerator[_Batch]:
        """Read all reports; yield batches of the executions of one repository each."""
        batch: _Batch | None = None
        yielder = LoopYielder()
        for done, request in enumerate(requests, start=1):
            if isinstance(request, Refusal):
                self._refuse(request)
            elif (file := self._examine(request)) is not None:
                # A report that may change while it is read begins a batch, which is dropped then.
                if batch is not None and not (
                    batch.repository == request.repository and file.is_in_memory
                ):
                    yield batch
                    batch = None
                # A report without cases registers its repository too.
                batch = batch or _Batch(request.repository)
                try:
                    for execution in self._read(request, file):
                        batch.add(request.run, execution)
                        if batch.is_full:
                            yield batch
                            batch = _Batch(request.repository)
                        await yielder.yield_if_due()
                except ReportError as error:
                    self._refuse_file(request, error)
                    batch = _Batch(request.repository)
            if progress is not None:
                progress(done, len(requests))
            await yielder.yield_if_due()
        if batch is not None:
            yield batch

    async def write(self, batch: _Batch) -> None:
        """Write a batch; register its repository before, even if the batch is empty."""
        repository = batch.repository
        if repository.key not in self._known:
            await self._sink.ensure_repository(repository)
            self._known[repository.key] = repository
        if not batch.size:
            return
        done = await self._sink.write_results(repository, batch.results)
        self.count += IngestCount(
            read=batch.size,
            written=done.written,
            unchanged=done.unchanged,
            refused=batch.size - done.written - done.unchanged,
        )

    def _refuse(self, refusal: Refusal) -> None:
        self.count += IngestCount(read=1, refused=1)
        self._report_refusal(refusal)

    def _examine(self, request: ReportRequest) -> ReportFile | None:
        """Return the report, or refuse it."""
        try:
            check_run(request.run)
            check_started_at(request.started_at, self._clock())
            return ReportFile.examine(request.path)
        except (ReportError, InvalidValueError) as error:
            self._refuse_file(request, error)
            return None

    def _read(self, request: ReportRequest, file: ReportFile) -> Iterator[Execution]:
        """Yield the executions of a report; refuse the cases that cannot be stored.

        Raises:
            ReportError: the file has changed since it was examined.
        """
        times = accepted_times(self._clock())
        for case, ordinal in file.read_cases():
            if isinstance(case, RefusedCase):
                self._refuse(Refusal(name_file(request.path), case.line, case.reason))
                continue
            finished_at = _choose_time(request, file, case, times)
            if finished_at is None:
                self._refuse(_refuse_undated(request, file, case))
                continue
            yield _to_execution(request, file, case, ordinal, finished_at)

    def _refuse_file(self, request: ReportRequest, error: ReportError | InvalidValueError) -> None:
        line, reason = None, str(error)
        if isinstance(error, ReportError):
            line, reason = error.line, error.reason
        self._refuse(Refusal(name_file(request.path), line, reason))


def _choose_time(
    request: ReportRequest, file: ReportFile, case: ReportCase, times: AcceptedTimes
) -> datetime | None:
    """Return the first accepted time, of the request, the case, its suite or the file.

    None if none is accepted.
    """
    if request.started_at is not None:
        return request.started_at
    for moment in (case.timestamp, case.suite_timestamp, file.modified_at):
        if moment is not None and times.covers(moment):
            return moment
    return None


def _refuse_undated(request: ReportRequest, file: ReportFile, case: ReportCase) -> Refusal:
    stated = "none" if case.timestamp is None else format_timestamp(case.timestamp)
    return Refusal(
        name_file(request.path),
        case.line,
        f"no usable time: the report states {stated}, and the file was modified at"
        f" {format_timestamp(file.modified_at)}; both have to be from 2000 on and at most a day"
        " ahead. Give the time as --started-at",
    )


def _to_execution(
    request: ReportRequest,
    file: ReportFile,
    case: ReportCase,
    ordinal: int,
    finished_at: datetime,
) -> Execution:
    run = request.run
    identity = derive_identity_id(
        request.repository, case.test_name, run.pipeline_name, run.job_name
    )
    return Execution(
        id=derive_junit_execution_id(identity, run.run_id, run.attempt, file.digest, ordinal),
        test_name=case.test_name,
        conclusion=case.conclusion,
        finished_at=finished_at,
        needed_retries=case.needed_retries,
        duration=case.duration,
        framework=request.framework,
        framework_version=request.framework_version,
        language=request.language,
        filepath=_relate(case.filepath, request.workspace),
        function_name=case.function_name,
        failure_type=case.failure_type,
        failure_message=case.failure_message,
        failure_trace=case.failure_trace,
    )


def _relate(path: str | None, workspace: str | None) -> str | None:
    """Return the path of a test file relative to the workspace, if it is in there.

    PHPUnit and some others write absolute paths. Only paths within the repository match owners and
    directories, and are the same on all machines.
    """
    if path is None or workspace is None:
        return path
    is_windows = "\\" in workspace
    paths = ntpath if is_windows else posixpath
    folder, file = paths.join(paths.normpath(workspace), ""), paths.normpath(path)
    start = file[: len(folder)]
    if len(file) == len(folder) or paths.normcase(start) != paths.normcase(folder):
        return path
    relative: str = file[len(folder) :]
    # Some tools write slashes on Windows too.
    return relative if "\\" in path else relative.replace("\\", "/")


def _expand(request: ReportRequest | Refusal) -> Iterator[ReportRequest | Refusal]:
    """Yield one request for each report of a folder; yield any other request unchanged."""
    if isinstance(request, Refusal) or not _is_folder(request.path):
        yield request
        return
    is_empty = True
    for found in find_reports(request.path):
        is_empty = False
        if isinstance(found, OSError):
            file = name_file(Path(found.filename))
            yield Refusal(file, None, f"cannot be read: {found.strerror}")
        else:
            yield replace(request, path=found)
    if is_empty:
        yield Refusal(name_file(request.path), None, "the folder holds no .xml or .xml.gz file")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # Opening the path reports the error.
        return False


def name_file(path: Path) -> str:
    """Return a path as displayable text: file names need not be Unicode."""
    return os.fsencode(path).decode(errors="replace")
