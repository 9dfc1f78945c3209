"""Writes the event of a settings change into the event log.

The repository's document holds the event until it is written. If a process is killed before that,
the next refresh or the next change of settings writes it.
"""

from __future__ import annotations

from contextlib import suppress

from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.event_writing import write_events
from indexing.store.elasticsearch.repositories import (
    StoredRepository,
    make_known,
    replace_repository,
)


async def write_announcement(cluster: Cluster, stored: StoredRepository) -> StoredRepository:
    """Write the pending event of a settings change, if any, and remove it from the repository."""
    while stored.announcement is not None:
        await write_events(cluster, [stored.announcement])
        # On a conflict, another process has changed the repository. The document tells whether it
        # has removed the event.
        with suppress(ConflictError):
            await replace_repository(
                cluster,
                stored,
                stored.repository,
                settings_version=stored.settings_version,
                announcement=None,
            )
        stored = await make_known(cluster, stored.repository.name)
    return stored
