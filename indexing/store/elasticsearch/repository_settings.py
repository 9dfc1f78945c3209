"""Changes a repository's settings, marks its tests as dirty and writes the event into the log."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime

from indexing.models.repositories import Repository, RepositoryChange
from indexing.names import RepositoryName
from indexing.quarantine.configuration import describe_change
from indexing.store.elasticsearch.announcements import write_announcement
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.dirty_markers import mark_repository
from indexing.store.elasticsearch.repositories import make_known, replace_repository


async def set_repository(
    cluster: Cluster, name: RepositoryName, change: RepositoryChange, now: datetime
) -> Repository:
    while True:
        stored = await write_announcement(cluster, await make_known(cluster, name))
        before = stored.repository
        after = _changed(before, change)
        if after == before:
            return after
        # Write the marker first: a kill in between may then cause a needless refresh, but never a
        # missing one.
        await mark_repository(cluster, routing_of(before.name), ahead=True)
        # A new settings version makes earlier automatic quarantines final. After a change of the
        # default branch alone they stay open to review: a quarantine is withdrawn if the new branch
        # has no evidence against its test.
        makes_final = after.differs_beside_branch(before)
        try:
            await replace_repository(
                cluster,
                stored,
                after,
                settings_version=stored.settings_version + makes_final,
                announcement=describe_change(before, after, now),
            )
        except ConflictError:
            continue
        # A concurrent refresh may have used the old settings.
        await mark_repository(cluster, routing_of(before.name))
        await write_announcement(cluster, await make_known(cluster, name))
        return after


def _changed(before: Repository, change: RepositoryChange) -> Repository:
    new = {name: value for name, value in asdict(change).items() if value is not None}
    return replace(before, **new)
