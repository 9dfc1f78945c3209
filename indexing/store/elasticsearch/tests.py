"""Documents of tests, with their derived values; always read and written as a whole."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from indexing.health.rollup_text import is_readable
from indexing.health.rollups import Job
from indexing.models.repositories import Repository
from indexing.models.tests import (
    METADATA_FIELDS,
    HealthStatus,
    TestDetail,
    TestHealth,
    TestMetadata,
)
from indexing.names import RepositoryName
from indexing.notifications.records import noticed_from_record, noticed_to_record
from indexing.notifications.rules import Noticed
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.pull_requests import pull_document, pull_of
from indexing.store.elasticsearch.repositories import document_id, repository_of
from indexing.store.row_values import RowValues
from indexing.timestamps import microseconds_or_none, moment_or_none

# The bounds of a test: times that outlive the executions they come from.
BOUNDS: Final = ("first_failure_at", "last_failure_at", "last_success_at")


class RemovedBound(NamedTuple):
    """A time in microseconds at which a bound is removed if it is of that branch; None: of any."""

    moment: int
    branch: str | None


@dataclass(frozen=True, slots=True)
class JobRollup:
    """The roll-up of one (pipeline, job), as text.

    `merged` are the ids of the executions of its newest day, so that a marker that is handled twice
    merges no execution twice. Executions of older days are never merged.
    """

    pipeline_name: str
    job_name: str
    merged: tuple[str, ...]
    text: str

    @property
    def job(self) -> Job:
        return (self.pipeline_name, self.job_name)


class StoredRow(NamedTuple):
    """The values of a row of the identity index; `filepath` is that of its test."""

    values: RowValues
    filepath: str | None


@dataclass(frozen=True, slots=True)
class StoredTest:
    """The content of a test's document.

    `branch` is the default branch that `health` was derived from; its bounds (first failure, last
    failure, last success) are invalid for another branch. `identities` are the (pipeline, job)
    pairs of its rows in the identity index, including rows that were deleted last. `rows` has the
    values of each row, None for a deleted one; an identity is left out if the state of its row is
    unknown.

    `rollups`, `history` and `lasting_verdicts` are of that branch; None if they were never computed
    although executions may exist. `noticed` is the record of what webhooks were last notified of.
    """

    test_name: str
    branch: str | None = None
    health: TestHealth = field(default_factory=TestHealth)
    metadata: TestMetadata = field(default_factory=TestMetadata)
    identities: tuple[tuple[str, str], ...] = ()
    rows: Mapping[tuple[str, str], StoredRow | None] = field(default_factory=dict)
    rollups: tuple[JobRollup, ...] | None = None
    noticed: Noticed | None = None
    history: str | None = None
    lasting_verdicts: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever derived for it: it is as a load registers it."""
        return self.branch is None and self.rollups == () and not self.identities

    def is_deleted(self, identity: Job) -> bool:
        """Return whether the row of this identity is known to have been deleted."""
        return identity in self.rows and self.rows[identity] is None

    def judged_jobs_on(self, branch: str) -> frozenset[Job]:
        """Return the jobs that the test was judged by; none if that was on another branch."""
        if self.branch != branch:
            return frozenset()
        return frozenset(rollup.job for rollup in self.rollups or ())

    def bounds_on(self, branch: str) -> TestHealth:
        """Return the health; without its bounds if they are of another branch."""
        if self.branch == branch:
            return self.health
        return replace(
            self.health,
            first_failure_at=None,
            first_failure_commit=None,
            first_failure_pull=None,
            last_failure_at=None,
            last_success_at=None,
        )

    def without(self, removed: Collection[RemovedBound]) -> StoredTest:
        """Return the test without these bounds."""
        moments = {each.moment for each in removed if each.branch in (None, self.branch)}
        gone: dict[str, Any] = {
            bound: None
            for bound in BOUNDS
            if microseconds_or_none(getattr(self.health, bound)) in moments
        }
        if "first_failure_at" in gone:
            gone |= {"first_failure_commit": None, "first_failure_pull": None}
        return replace(self, health=replace(self.health, **gone)) if gone else self


async def is_test_known(cluster: Cluster, repository: RepositoryName, test_id: uuid.UUID) -> bool:
    """Return whether the repository has that test."""
    routing = routing_of(repository)
    (found,) = await cluster.connection.get_many(
        [Place(cluster.layout.tests, str(test_id), routing, ("repository_id",))]
    )
    return found is not None and found.source["repository_id"] == routing


async def get_test(
    cluster: Cluster, repository: RepositoryName, test_id: uuid.UUID
) -> TestDetail | None:
    routing = routing_of(repository)
    known, found = await cluster.combined_reads.get_many(
        [
            Place(cluster.layout.control, document_id(repository)),
            Place(cluster.layout.tests, str(test_id), routing),
        ],
        # Leave out the fields that grow with the jobs of the test, which only a refresh needs.
        without=("rollups", "history", "lasting_verdicts", "identities", "rows"),
    )
    if known is None or found is None or found.source["repository_id"] != routing:
        return None
    settings: Repository = repository_of(known.source)
    test = test_of(found.source)
    return TestDetail(
        repository=settings.name,
        test_name=test.test_name,
        test_id=test_id,
        flaky_detection_enabled=settings.flaky_detection,
        health=test.bounds_on(settings.default_branch),
        metadata=test.metadata,
    )


def source_of(test: StoredTest, test_id: str, routing: str) -> dict[str, Any]:
    """Return the content of a test as it is in its document; times are in microseconds."""
    health = test.health
    return {
        "repository_id": routing,
        "test_id": test_id,
        "test_name": test.test_name,
        "branch": test.branch,
        "health_status": health.health_status.value,
        "last_conclusion": health.last_conclusion,
        "failure_ratio": health.failure_ratio,
        "flakiness_ratio": health.flakiness_ratio,
        "success_ratio": health.success_ratio,
        "first_failure_at": microseconds_or_none(health.first_failure_at),
        "first_failure_commit": health.first_failure_commit,
        "first_failure_pull": pull_document(health.first_failure_pull),
        "last_failure_at": microseconds_or_none(health.last_failure_at),
        "last_success_at": microseconds_or_none(health.last_success_at),
        "metadata": {name: getattr(test.metadata, name) for name in METADATA_FIELDS},
        "identities": test.identities,
        "rows": [
            [*identity, None if row is None else (tuple(row.values), row.filepath)]
            for identity, row in test.rows.items()
        ],
        "rollups": None
        if test.rollups is None
        else [[each.pipeline_name, each.job_name, each.merged, each.text] for each in test.rollups],
        "noticed": None if test.noticed is None else noticed_to_record(test.noticed),
        "history": test.history,
        "lasting_verdicts": test.lasting_verdicts,
    }


def test_of(source: Mapping[str, Any]) -> StoredTest:
    """Return the content of a test from its document, which an earlier release may have written."""
    return StoredTest(
        source["test_name"],
        source["branch"],
        TestHealth(
            health_status=HealthStatus(source["health_status"]),
            last_conclusion=source["last_conclusion"],
            failure_ratio=source["failure_ratio"],
            flakiness_ratio=source["flakiness_ratio"],
            success_ratio=source["success_ratio"],
            first_failure_at=moment_or_none(source["first_failure_at"]),
            first_failure_commit=source["first_failure_commit"],
            first_failure_pull=pull_of(source["first_failure_pull"]),
            last_failure_at=moment_or_none(source["last_failure_at"]),
            last_success_at=moment_or_none(source["last_success_at"]),
        ),
        TestMetadata.from_record(source["metadata"]),
        tuple((pipeline, job) for pipeline, job in source.get("identities", ())),
        # Documents of an earlier release have no rows.
        {
            (pipeline, job): None if values is None else StoredRow(RowValues(*values[0]), values[1])
            for pipeline, job, values in source.get("rows", ())
        },
        _rollups_of(source.get("rollups")),
        None if source.get("noticed") is None else noticed_from_record(source["noticed"]),
        source.get("history"),
        source.get("lasting_verdicts"),
    )


def _rollups_of(source: Sequence[Sequence[Any]] | None) -> tuple[JobRollup, ...] | None:
    # Roll-ups in the format of an earlier release have to be computed again.
    if source is None or not all(is_readable(text.encode()) for *_, text in source):
        return None
    return tuple(
        JobRollup(pipeline, job, tuple(merged), text) for pipeline, job, merged, text in source
    )
