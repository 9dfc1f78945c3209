"""All that one request tells of: executions by run, and what was rejected and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.errors import InvalidValueError
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.otlp.requests import DamagedSpan, ReceivedSpan, RequestTooLargeError
from indexing.otlp.spans import to_execution

# What is wrong with one span of a plugin is mostly wrong with all: this many reasons are told.
_TOLD_REASONS: Final = 5


# A run is one transaction of the store at least; a collector gathers those of some hundred jobs.
MAX_RUNS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Results:
    """What came out of a request; `complaint` says why spans were rejected, and which."""

    runs: Mapping[Run, Sequence[Execution]]
    rejected: int
    complaint: str


def read_results(
    repository: RepositoryName, spans: Iterable[ReceivedSpan | DamagedSpan], *, now: datetime
) -> Results:
    """Sort the spans of a request; those that are no tests are passed over.

    `now` is the time that no span may have ended more than a day ahead of.

    Raises:
        RequestError: the request that the spans are read from turns out to be unreadable, or to
            hold too much.
    """
    runs: dict[Run, list[Execution]] = {}
    # Of each reason, where it was met first and how often.
    reasons: dict[str, tuple[str, int]] = {}
    for received in spans:
        try:
            if isinstance(received, DamagedSpan):
                raise InvalidValueError(received.reason)
            found = to_execution(repository, received, now)
        except InvalidValueError as error:
            first, count = reasons.get(str(error), (received.place, 0))
            reasons[str(error)] = first, count + 1
            continue
        if found is not None:
            run, execution = found
            runs.setdefault(run, []).append(execution)
            if len(runs) > MAX_RUNS:
                raise RequestTooLargeError(f"spans of more than {MAX_RUNS} runs in one request")
    rejected = sum(count for _, count in reasons.values())
    return Results(runs, rejected, _complain(reasons))


def _complain(reasons: Mapping[str, tuple[str, int]]) -> str:
    told = [
        f"{first}: {reason}" + (f" (and {count - 1} more spans)" if count > 1 else "")
        for reason, (first, count) in list(reasons.items())[:_TOLD_REASONS]
    ]
    if len(reasons) > _TOLD_REASONS:
        told.append(f"and {len(reasons) - _TOLD_REASONS} more reasons")
    return "; ".join(told)
