"""Whether quarantined tests are healthy again, by what ran since on the branches covered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from indexing.globs import matches
from indexing.health.rules import is_recovered
from indexing.store.elasticsearch import observations
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.scopes import Scope
from indexing.timestamps import to_microseconds

_SCOPES_AT_ONCE: Final = 20


async def judge_recovery(cluster: Cluster, routing: str, scopes: Sequence[Scope]) -> list[Scope]:
    """The scopes of one repository with `is_recovered` as it is now."""
    begun: dict[str, int] = {}
    for scope in scopes:
        if scope.record is not None:
            test, moment = str(scope.test_id), to_microseconds(scope.record.created_at)
            begun[test] = min(moment, begun.get(test, moment))
    if not begun:
        return list(scopes)
    retention = (await cluster.control.read()).retention
    # Results of every branch: a pattern may cover any of them.
    everywhere = observations.Scope(routing, retention, branch=None)
    recovered: list[Scope] = []
    # By test, and few at a time: a quarantine may have begun long ago, and all since is read.
    ordered = sorted(scopes, key=lambda scope: str(scope.test_id))
    for start in range(0, len(ordered), _SCOPES_AT_ONCE):
        some = ordered[start : start + _SCOPES_AT_ONCE]
        tests = {str(scope.test_id) for scope in some} & begun.keys()
        seen = await observations.read_since(
            cluster, everywhere, {test: begun[test] for test in tests}
        )
        recovered += (_judged(scope, seen.get(str(scope.test_id), [])) for scope in some)
    return recovered


def _judged(scope: Scope, seen: Sequence[observations.OnBranch]) -> Scope:
    record = scope.record
    if record is None:
        return scope
    covered = [
        each.observation
        for each in seen
        if each.observation.finished_at >= record.created_at
        and (scope.branch is None or matches(scope.branch, each.branch))
    ]
    return scope.holding(replace(record, is_recovered=is_recovered(covered)))
