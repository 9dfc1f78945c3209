"""The event that tells of a change of settings: kept with the repository until it is in the log.

After a kill between the two, the next refresh or the next change of settings writes it.
"""

from __future__ import annotations

from contextlib import suppress

from indexing.store.elasticsearch.client.connection import ConflictError
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.events import write_events
from indexing.store.elasticsearch.repositories import (
    StoredRepository,
    make_known,
    replace_repository,
)


async def write_announcement(cluster: Cluster, stored: StoredRepository) -> StoredRepository:
    """Write the event that a change of settings left to be written, and note that it is done."""
    while stored.announcement is not None:
        await write_events(cluster, [stored.announcement])
        # After a conflict another process has noted it: nothing else is done before that.
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
