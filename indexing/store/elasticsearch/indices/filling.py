"""The settings of an index while a rebuild fills it: no replicas and no refreshes.

The normal settings are restored before readers use the index. If the rebuild is killed before that,
nobody reads the index yet, and the next process that opens the store restores them.
"""

from __future__ import annotations

from typing import Final

from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import NOT_FOUND
from indexing.store.elasticsearch.indices.templates import choose_settings

_TIMED_OUT: Final = 408
# The cluster has to give up before the client does, whose error would end a rebuild.
_REPLICAS_WAIT: Final = f"{WRITING.attempt / 2:.0f}s"

WHILE_FILLING: Final = {
    "index.number_of_replicas": 0,
    "index.auto_expand_replicas": False,
    "index.refresh_interval": -1,
}


async def restore_settings(connection: Connection, name: str) -> None:
    """Restore the settings of an index from its templates, and wait for its replicas.

    A missing index is ignored.
    """
    chosen = await choose_settings(connection, name)
    # Null restores the default of Elasticsearch for a setting that no template sets.
    settings = {setting: chosen.get(setting) for setting in WHILE_FILLING}
    answer = await connection.request(
        "PUT",
        f"/{name}/_settings",
        settings,
        allow={NOT_FOUND},
        timeouts=WRITING,
        needs="acknowledged",
    )
    if "error" in answer:
        return
    # A cluster that is slow to make replicas responds with a timeout; the index works without them.
    # If another rebuild has deleted the index, the cluster would wait for its name, but not for a
    # pattern.
    target = f"/_cluster/health/{name}*?wait_for_no_initializing_shards=true"
    await connection.request(
        "GET", f"{target}&timeout={_REPLICAS_WAIT}", allow={_TIMED_OUT}, timeouts=WRITING
    )
