"""The result of a refresh for a test, and the writes of its changed values. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import orjson

from indexing.health.history import write_history
from indexing.health.lasting_verdicts import write_lasting
from indexing.health.rollups import Job
from indexing.health.rules import judge_rollups
from indexing.identifiers import derive_identity_id
from indexing.models.notifications import Notification
from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName
from indexing.notifications.rules import (
    Noticed,
    noticed_by,
    pending_notification,
    plan_notification,
    type_of_change,
)
from indexing.store.elasticsearch.client.bulk import Action, Operation
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.derived.auto_quarantine import JudgedTest, RuleInputs
from indexing.store.elasticsearch.derived.rollups import RollupsOfTest
from indexing.store.elasticsearch.indices import name_trigrams
from indexing.store.elasticsearch.search.query import key_of
from indexing.store.elasticsearch.tests import RemovedBound, StoredRow, StoredTest, source_of
from indexing.store.row_values import RowValues


@dataclass(frozen=True, slots=True)
class Result:
    """A judged test and its stored document, whose version is `version`.

    `trigrams` are those of its name, as JSON. With `rewrite_all`, everything is written: rows of
    the search may be outdated or missing. With `is_filling`, a rebuild is filling a generation of
    the search.
    """

    test: JudgedTest
    rules: RuleInputs
    before: StoredTest
    version: Version
    after: StoredTest
    after_rows: Mapping[Job, StoredRow | None]
    trigrams: orjson.Fragment
    rewrite_all: bool
    is_filling: bool

    @classmethod
    def of(
        cls,
        test: JudgedTest,
        rules: RuleInputs,
        before: StoredTest,
        version: Version,
        *,
        rewrite_all: bool,
        is_filling: bool,
        is_held: bool,
    ) -> Result:
        """Derive the new document; `is_held` is whether this process holds the lease.

        Without the lease, the document must not list the rows: if the process died before writing
        them, nothing else would show that they may be outdated.
        """
        after = _derive(test, rules, before, keep_deleted=rewrite_all)
        stored = after if is_held else replace(after, rows={})
        # Here and not with the rows, because this runs in a thread.
        trigrams = name_trigrams.encode_trigrams(test.test_name)
        return cls(
            test, rules, before, version, stored, after.rows, trigrams, rewrite_all, is_filling
        )

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write.

        A new generation gets rows with a new version of the test. So a process that read the test
        before that generation existed fails to write it, and begins again.
        """
        return self.rewrite_all or self.is_filling or self.before != self.after

    @property
    def detail_changed(self) -> bool:
        """Whether the detail that the API shows of the test has changed, or may have."""
        if self.rewrite_all:
            return True
        before, after = (
            (test.health, test.metadata, test.branch) for test in (self.before, self.after)
        )
        return before != after

    @property
    def unfinished(self) -> Notification | None:
        """The notification that was pending before; write it before the test's document.

        A killed refresh may or may not have written it.
        """
        return self._pending_in(self.before)

    @property
    def notification(self) -> Notification | None:
        """The notification for the repository's webhooks; write it after the test's document."""
        return self._pending_in(self.after)

    def _pending_in(self, stored: StoredTest) -> Notification | None:
        subscription, noticed = self.rules.subscription, stored.noticed
        if subscription is None or noticed is None or noticed.since != subscription.since:
            return None
        return pending_notification(noticed, uuid.UUID(self.test.test_id), self.test.test_name)

    def test_operation(self, index: str) -> Operation:
        """Return the write of the test's document; it fails if the version has changed."""
        routing = self.rules.observed.routing
        text = orjson.dumps(source_of(self.after, self.test.test_id, routing))
        guard = self.version.parameters
        return Operation("index", index, self.test.test_id, routing, guard=guard, text=text)

    def row_operations(self, indices: Mapping[str, bool], version: int) -> Iterator[Operation]:
        """Yield the writes of search rows, and the deletions of rows that no longer exist.

        `indices` has the indices of all generations, and whether each may lack rows. `version` is
        the new version of the test's document.
        """
        routing = self.rules.observed.routing
        guard = {"version": version, "version_type": "external_gte"}
        for (pipeline, job), row in self.after_rows.items():
            is_changed = self.rewrite_all or self._is_changed((pipeline, job), row)
            written = [index for index, lacks_rows in indices.items() if is_changed or lacks_rows]
            if not written:
                continue
            source = None
            if row is not None:
                source = {
                    "repository_id": routing,
                    "key": key_of(routing, self.test.test_name),
                    "test_id": self.test.test_id,
                    "test_name": self.test.test_name,
                    name_trigrams.FIELD: self.trigrams,
                    "pipeline_name": pipeline,
                    "job_name": job,
                    **row.values._asdict(),
                    "file_key": None if row.filepath is None else key_of(routing, row.filepath),
                }
            action: Action = "delete" if source is None else "index"
            row_id = row_id_of(self.rules.repository.name, self.test.test_name, pipeline, job)
            for index in written:
                yield Operation(action, index, row_id, routing, source, guard)

    def _is_changed(self, identity: Job, row: StoredRow | None) -> bool:
        before = self.before.rows
        return identity not in before or before[identity] != row


def row_id_of(repository: RepositoryName, test_name: str, pipeline: str, job: str) -> str:
    """Return the document id of an identity row; it is the same in every generation."""
    return derive_identity_id(repository, test_name, pipeline, job).hex()


def judge_test(
    test_id: str,
    stored: StoredTest,
    rollups: RollupsOfTest,
    rules: RuleInputs,
    removed: Collection[RemovedBound],
) -> JudgedTest:
    """Judge a stored test; `removed` are the bounds that may come from removed executions."""
    test = stored.without(removed)
    judge = partial(
        judge_rollups,
        flaky_detection=rules.repository.flaky_detection,
        before=test.bounds_on(rules.repository.default_branch),
    )
    judgement = rollups.judgement
    if judgement is None:
        judgement = judge(rollups.rollups, rollups.fresh)
    elif not rules.repository.flaky_detection:
        judgement = replace(judgement, flaky_detection=False)
    return JudgedTest(test_id, test.test_name, rollups, judgement, judge)


def _derive(
    test: JudgedTest, rules: RuleInputs, before: StoredTest, *, keep_deleted: bool
) -> StoredTest:
    # Keep the identities of rows that are deleted now: if a kill prevents that, the next refresh
    # keeps them again, and repeats it.
    rows = test.judgement.rows
    former = [each for each in before.identities if keep_deleted or not before.is_deleted(each)]
    identities = dict.fromkeys([*former, *rows])
    return StoredTest(
        test.test_name,
        rules.repository.default_branch,
        test.judgement.health,
        test.judgement.metadata,
        tuple(identities),
        {
            each: StoredRow(RowValues.of(rows[each]), test.judgement.metadata.filepath)
            if each in rows
            else None
            for each in identities
        },
        test.rollups.stored_as(),
        _notice(rules, before, test.judgement.health.health_status),
        write_history(test.rollups.history).decode(),
        write_lasting(test.rollups.history.lasting).decode(),
    )


def _notice(rules: RuleInputs, before: StoredTest, status: HealthStatus) -> Noticed | None:
    """Return the record of what webhooks were last notified of, and of what they are to be now.

    It is stored with the new health before the notification is written, so that a kill in between
    loses no notification, and the next refresh counts it even if the health has changed again.
    """
    if rules.subscription is None:
        return before.noticed
    health = before.health.health_status
    noticed = noticed_by(rules.subscription, before.noticed, health, rules.now)
    told = noticed.after_pending()
    if told == noticed and type_of_change(told.status, status) is None:
        return before.noticed
    return plan_notification(told, status, rules.now)
