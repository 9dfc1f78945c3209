"""Notes the searches of the event log that count values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.places import Search


class Searches:
    """Notes the searches that count values; `before_next` is called before the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.facets = 0
        self.before_next: Any = None
        original = Connection.search_many

        async def search_many(
            connection: Connection, searches: Sequence[Search], **options: Any
        ) -> list[Any]:
            # Those that count bars only are cheap.
            counting = sum(each.body.get("aggs", {}).keys() > {"bars"} for each in searches)
            counting += sum("groups" in each.body.get("aggs", {}) for each in searches)
            self.facets += counting
            if counting and self.before_next is not None:
                call, self.before_next = self.before_next, None
                await call()
            return await original(connection, searches, **options)

        monkeypatch.setattr(Connection, "search_many", search_many)
