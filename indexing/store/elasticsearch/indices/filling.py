"""Settings of an index while a rebuild fills it: no replicas and no refreshes, as nobody reads it.

The settings are put back before readers use the index. So a kill leaves them only on an index that
nobody reads, and the next process that opens the store puts them back there too.
"""

from __future__ import annotations

from typing import Final

from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.indices.templates import choose_settings

_MISSING: Final = 404
_TIMED_OUT: Final = 408
_REPLICAS_WAIT: Final = "30s"

WHILE_FILLING: Final = {
    "index.number_of_replicas": 0,
    "index.auto_expand_replicas": False,
    "index.refresh_interval": -1,
}


async def restore_settings(connection: Connection, name: str) -> None:
    """Give the index, if it exists, the settings that its templates say; wait for its replicas."""
    chosen = await choose_settings(connection, name)
    # A missing setting becomes null, which is the default of Elasticsearch.
    settings = {setting: chosen.get(setting) for setting in WHILE_FILLING}
    answer = await connection.request(
        "PUT", f"/{name}/_settings", settings, allow={_MISSING}, patience=WRITING
    )
    if "error" in answer:
        return
    # A cluster without room for replicas answers with a timeout; the index works without them.
    target = f"/_cluster/health/{name}?wait_for_no_initializing_shards=true"
    await connection.request(
        "GET", f"{target}&timeout={_REPLICAS_WAIT}", allow={_TIMED_OUT}, patience=WRITING
    )
