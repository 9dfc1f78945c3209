"""The results in one request: executions by run, and rejected spans with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from indexing.errors import InvalidValueError
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.otlp.requests import DamagedSpan, ReceivedSpan, RequestTooLargeError
from indexing.otlp.spans import to_execution

# An error in one span of a plugin is mostly in all of them: report this many reasons.
_MAX_REASONS: Final = 5

# Each run takes at least one transaction of the store; a collector batches some hundred jobs.
MAX_RUNS: Final = 1_000


class Results:
    """Collects the results of the spans of one request; spans that are not tests are ignored.

    No span may have ended more than a day after `now`.
    """

    def __init__(self, repository: RepositoryName, now: datetime) -> None:
        self._repository = repository
        self._now = now
        self._runs: dict[Run, list[Execution]] = {}
        # For each reason, the position of its first span and the number of spans.
        self._reasons: dict[str, tuple[str, int]] = {}

    def add(self, received: ReceivedSpan | DamagedSpan) -> None:
        """Add one span.

        Raises:
            RequestTooLargeError: the spans belong to too many runs.
        """
        try:
            if isinstance(received, DamagedSpan):
                raise InvalidValueError(received.reason)
            found = to_execution(self._repository, received, self._now)
        except InvalidValueError as error:
            first, count = self._reasons.get(str(error), (received.place, 0))
            self._reasons[str(error)] = first, count + 1
            return
        if found is not None:
            run, execution = found
            self._runs.setdefault(run, []).append(execution)
            if len(self._runs) > MAX_RUNS:
                raise RequestTooLargeError(f"spans of more than {MAX_RUNS} runs in one request")

    @property
    def runs(self) -> Mapping[Run, Sequence[Execution]]:
        """The executions of each run."""
        return self._runs

    @property
    def rejected(self) -> int:
        """The number of rejected spans."""
        return sum(count for _, count in self._reasons.values())

    @property
    def error_message(self) -> str:
        """The reasons for the rejections, each with its first span."""
        return _join_reasons(self._reasons)


def _join_reasons(reasons: Mapping[str, tuple[str, int]]) -> str:
    lines = [
        f"{first}: {reason}" + (f" (and {count - 1} more spans)" if count > 1 else "")
        for reason, (first, count) in list(reasons.items())[:_MAX_REASONS]
    ]
    if len(reasons) > _MAX_REASONS:
        lines.append(f"and {len(reasons) - _MAX_REASONS} more reasons")
    return "; ".join(lines)
