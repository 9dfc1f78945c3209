"""The documents of executions, with what the executions of one run have in common. Pure."""

from __future__ import annotations

import uuid
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from indexing.failures.fingerprint import identify_failure
from indexing.identifiers import derive_arrival_id, derive_run_id, make_test_id_deriver
from indexing.models.executions import Execution, Run
from indexing.models.tests import METADATA_FIELDS, metadata_values
from indexing.models.trends import duration_of
from indexing.names import RepositoryName
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.slices import slice_of
from indexing.store.elasticsearch.pull_requests import pull_document
from indexing.timestamps import to_microseconds


class KnownRun(NamedTuple):
    """A run, the ids that its executions share, and the fields that they share as JSON."""

    run: Run
    id: str
    arrival_id: str
    shared: bytes

    @classmethod
    def of(cls, repository: RepositoryName, run: Run) -> KnownRun:
        run_id = derive_run_id(repository, run).hex()
        arrival_id = derive_arrival_id(repository, run).hex()
        shared = {
            "repository_id": routing_of(repository),
            "run": run_id,
            "arrival": arrival_id,
            "run_id": run.run_id,
            "attempt": run.attempt,
            "pipeline_name": run.pipeline_name,
            "job_name": run.job_name,
            "branch": run.branch,
            "commit": run.commit,
            "pull_number": run.pull_number,
            "pull": pull_document(run.pull),
            "job_url": run.job_url,
        }
        return cls(run, run_id, arrival_id, orjson.dumps(_without_missing(shared)))


class Result(NamedTuple):
    """An execution with its run, its id, the id of its test, also as text, and its index."""

    run: KnownRun
    execution: Execution
    id: str
    test_id: uuid.UUID
    test: str
    stored_in: str

    def encode(self, epoch: int) -> bytes:
        """Return the document as JSON; `epoch` is that of the retention."""
        execution = self.execution
        failure_id = identify_failure(self.test_id, execution)
        trace = execution.failure_trace
        own: dict[str, Any] = {
            "execution_id": self.id,
            "test_id": self.test,
            "conclusion": execution.conclusion.value,
            FINISHED_AT: to_microseconds(execution.finished_at),
            "needed_retries": execution.needed_retries,
            "duration": execution.duration,
            "failure_type": execution.failure_type,
            "failure_message": execution.failure_message,
            "failure_id": None if failure_id is None else str(failure_id),
            "failure_trace": None if trace is None else b64encode(trace).decode(),
            "epoch": epoch,
            "microseconds": duration_of(execution.duration),
        }
        own.update(zip(METADATA_FIELDS, metadata_values(execution), strict=True))
        # Both parts are objects with at least one field; join them into one.
        return self.run.shared[:-1] + b"," + orjson.dumps(_without_missing(own))[1:]


def list_results(
    layout: Layout, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
) -> list[Result]:
    """Return every execution with its ids, each of which is derived once."""
    derive_test_id = make_test_id_deriver(repository)
    test_ids: dict[str, tuple[uuid.UUID, str]] = {}
    indices: dict[tuple[int, int], str] = {}
    listed = []
    for run, executions in results.items():
        known = KnownRun.of(repository, run)
        for execution in executions:
            name, at = execution.test_name, execution.finished_at
            ids = test_ids.get(name)
            if ids is None:
                test_id = derive_test_id(name)
                ids = test_ids[name] = (test_id, str(test_id))
            month = (at.year, at.month)
            index = indices.get(month)
            if index is None:
                index = indices[month] = layout.executions_of(slice_of(at))
            listed.append(Result(known, execution, execution.id.hex(), *ids, index))
    return listed


def _without_missing(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out missing values: most executions did not fail and have few fields."""
    return {name: value for name, value in fields.items() if value is not None}
