"""Carries out the rulings on automatic quarantine, and says which quarantined tests recovered."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from indexing.health.observations import Judgement, Observation
from indexing.identifiers import derive_quarantine_id
from indexing.models.quarantines import QuarantineSource
from indexing.models.repositories import Repository
from indexing.quarantine.decision import Standing, find_evidence
from indexing.quarantine.ruling import Beginning, Ruling, Standings, rule
from indexing.store.elasticsearch import bulk, observations
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.connection import Document, Version
from indexing.store.elasticsearch.recovery import judge_recovery
from indexing.store.elasticsearch.scanning import scan
from indexing.store.elasticsearch.scopes import (
    Record,
    Scope,
    read_scopes,
    scope_of,
    writing,
)

# Tests have few scopes each; a step's are read page by page all the same.
_SCOPES_A_PAGE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Judged:
    """A test as it was just judged, and how to judge it again by fewer observations."""

    test_id: str
    test_name: str
    observations: Sequence[Observation]
    judgement: Judgement
    judge_anew: Callable[[Sequence[Observation]], Judgement]

    @property
    def newest(self) -> datetime | None:
        return max((seen.finished_at for seen in self.observations), default=None)


@dataclass(frozen=True, slots=True)
class Rules:
    """What rulings on a repository's tests go by."""

    repository: Repository
    settings_version: int
    executions: observations.Scope
    now: datetime


async def rule_tests(cluster: Cluster, rules: Rules, tests: Sequence[Judged]) -> frozenset[str]:
    """Begin, reword and take back automatic quarantines, and judge the recovery of all others.

    Returns the ids of the tests whose quarantines were changed by somebody else meanwhile: they
    have to be done again.
    """
    routing = rules.executions.routing
    scopes = {
        (str(scope.test_id), scope.branch): scope
        for scope in await _read_scopes(cluster, routing, [test.test_id for test in tests])
    }
    changed = dict(scopes)
    if rules.repository.auto_quarantine:
        unknown = [
            Scope(routing, uuid.UUID(test.test_id), test.test_name, None)
            for test in tests
            if (test.test_id, None) not in scopes
        ]
        for scope in await read_scopes(cluster, unknown):
            scopes[str(scope.test_id), None] = scope
        for test in tests:
            changed[test.test_id, None] = await _apply(
                cluster, rules, test, scopes[test.test_id, None]
            )
    after = await judge_recovery(cluster, routing, list(changed.values()))
    written = [scope for scope in after if scope != scopes[str(scope.test_id), scope.branch]]
    outcomes = await bulk.send(
        cluster.connection, [writing(cluster, scope) for scope in written], visible=True
    )
    return frozenset(
        str(scope.test_id)
        for scope, outcome in zip(written, outcomes, strict=True)
        if not outcome.done
    )


async def _apply(cluster: Cluster, rules: Rules, test: Judged, stored: Scope) -> Scope:
    """The scope of every branch after the rules had their say."""
    scope = stored.expired_by(rules.now)
    record = scope.record
    deliberation = rule(
        Standings(
            stands=record is not None,
            judged_until=_judged_until(record, rules),
            answered_until=scope.answered_until,
        ),
        now=rules.now,
        newest=test.newest,
        ignore_broken=rules.repository.ignore_broken_on_default_branch,
    )
    try:
        moment = next(deliberation)
        while True:
            moment = deliberation.send(await _standing_until(cluster, rules, test, moment))
    except StopIteration as done:
        ruling: Ruling = done.value
    if ruling.reworded is not None and record is not None:
        record = replace(record, reason=ruling.reworded)
    if ruling.takes_back:
        record = None
    if ruling.begins is not None:
        record = _begin(ruling.begins, scope, rules)
    return scope.holding(record)


def _judged_until(record: Record | None, rules: Rules) -> datetime | None:
    # Under other settings than it was made by, a decision is final.
    if record is None or record.settings_version != rules.settings_version:
        return None
    return record.judged_until


def _begin(beginning: Beginning, scope: Scope, rules: Rules) -> Record:
    return Record(
        id=derive_quarantine_id(scope.test_id, scope.ended),
        reason=beginning.reason,
        source=QuarantineSource.AUTO,
        created_at=rules.now,
        judged_until=beginning.judged_until,
        settings_version=rules.settings_version,
    )


async def _standing_until(
    cluster: Cluster, rules: Rules, test: Judged, moment: datetime
) -> Standing:
    """How the test stood by the executions that had finished by then."""
    if test.newest is None or test.newest <= moment:
        return Standing(test.judgement.health, find_evidence(test.observations))
    extents = await observations.read_extents(
        cluster, rules.executions, [test.test_id], until=moment
    )
    read = await observations.read_observations(cluster, rules.executions, extents, until=moment)
    seen = read.get(test.test_id, [])
    return Standing(test.judge_anew(seen).health, find_evidence(seen))


async def _read_scopes(cluster: Cluster, routing: str, tests: Sequence[str]) -> list[Scope]:
    """All scopes of these tests that were ever stored."""
    filters = [{"term": {"repository_id": routing}}, {"terms": {"test_id": list(tests)}}]
    body = {
        "size": _SCOPES_A_PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"scope": "asc"}],
        "seq_no_primary_term": True,
    }
    scopes: list[Scope] = []
    async for hits in scan(cluster.connection, cluster.layout.quarantines, body, routing=routing):
        scopes += map(_scope_of, hits)
    return scopes


def _scope_of(hit: Mapping[str, Any]) -> Scope:
    version = Version(hit["_seq_no"], hit["_primary_term"])
    return scope_of(Document(hit["_id"], hit["_source"], version))
