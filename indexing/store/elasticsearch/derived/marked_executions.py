"""Executions inside a dirty marker, so that a refresh need not search for them. Pure.

A marker may be handled twice, so each execution has an id, and a refresh merges an id only once. Of
an execution that was stored before, a marker contains only the id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from indexing.health.observations import Observation
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.tests import METADATA_FIELDS, TestMetadata, metadata_values
from indexing.store.elasticsearch.pull_requests import pull_document, pull_of
from indexing.timestamps import to_microseconds

# The number of hexadecimal digits of a shortened id. That is enough to distinguish the executions
# of one test on one day.
_ID_DIGITS: Final = 16
# The most bytes in one marker. Two thousand executions with names of the usual length take half of
# this. Names may be a hundred times as long, and a refresh reads many markers at once.
_MOST_BYTES: Final = 2 * 1024 * 1024


class MarkedExecution(NamedTuple):
    """One execution: `run` is the id of its run; `facts` is None if it was stored before."""

    id: str
    run: str
    facts: Mapping[str, Any] | None

    @property
    def branch(self) -> str | None:
        return None if self.facts is None else self.facts["branch"]

    @property
    def commit(self) -> str:
        return "" if self.facts is None else self.facts["commit"]

    @property
    def job(self) -> tuple[str, str] | None:
        if self.facts is None:
            return None
        return self.facts["pipeline_name"], self.facts["job_name"]

    def observe(self, failed_runs: Collection[str]) -> Observation:
        """Return the execution as an observation; `failed_runs` are runs that failed as a whole."""
        facts = self.facts
        if facts is None:
            raise LookupError("the execution was stored before")
        return Observation(
            pipeline_name=facts["pipeline_name"],
            job_name=facts["job_name"],
            commit=facts["commit"],
            conclusion=Conclusion(facts["conclusion"]),
            at=facts["finished_at"],
            needed_retries=facts["needed_retries"],
            infrastructure_failure=self.run in failed_runs,
            pull=pull_of(facts.get("pull")),
            metadata=TestMetadata.from_record(facts),
            duration=facts.get("duration"),
        )


def short_id(execution_id: str) -> str:
    """Return the shortened form of an execution's hexadecimal id."""
    return execution_id[:_ID_DIGITS]


def mark_execution(run: Run, run_id: str, execution: Execution, *, is_new: bool) -> MarkedExecution:
    """Return an execution as a marker contains it."""
    if not is_new:
        return MarkedExecution(short_id(execution.id.hex()), run_id, None)
    facts: dict[str, Any] = {
        "pipeline_name": run.pipeline_name,
        "job_name": run.job_name,
        "branch": run.branch,
        "commit": run.commit,
        "conclusion": execution.conclusion.value,
        "finished_at": to_microseconds(execution.finished_at),
        "needed_retries": execution.needed_retries,
        "duration": execution.duration,
    }
    # Tests show a pull request only for their first failure.
    if execution.conclusion is Conclusion.FAILED:
        facts["pull"] = pull_document(run.pull)
    stated = zip(METADATA_FIELDS, metadata_values(execution), strict=True)
    facts |= {field: value for field, value in stated if value is not None}
    return MarkedExecution(short_id(execution.id.hex()), run_id, facts)


class WrittenExecutions(NamedTuple):
    """Executions in their form in the document of a marker, and about how many bytes they have."""

    by_test: Mapping[str, Sequence[Any]]
    size: int


def write_executions(
    executions: Mapping[str, Iterable[MarkedExecution]],
) -> WrittenExecutions | None:
    """Convert executions by test; None if they have more than `_MOST_BYTES`."""
    written: dict[str, list[Any]] = {}
    size = 0
    for test, of_test in executions.items():
        rows = written[test] = []
        for each in of_test:
            facts = orjson.dumps(each.facts)
            size += len(facts) + len(each.id) + len(each.run)
            if size > _MOST_BYTES:
                return None
            rows.append([each.id, each.run, orjson.Fragment(facts)])
    return WrittenExecutions(written, size)


def read_executions(
    source: Mapping[str, Any] | None,
) -> Mapping[str, Sequence[MarkedExecution]] | None:
    """Parse the executions in the document of a marker; None if it contains none."""
    if source is None:
        return None
    return {test: [MarkedExecution(*each) for each in of_test] for test, of_test in source.items()}
