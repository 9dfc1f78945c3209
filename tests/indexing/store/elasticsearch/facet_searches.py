"""Notes the searches of the event log that count facets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.places import Search


class Searches:
    """Notes the searches that count facets; `before_next` is called before one, after `skipped`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.facets = 0
        self.before_next: Any = None
        self.skipped = 0
        original = Connection.search_many

        async def search_many(
            connection: Connection, searches: Sequence[Search], **options: Any
        ) -> list[Any]:
            counting = sum("aggs" in each.body for each in searches)
            self.facets += counting
            if counting and self.before_next is not None:
                if self.skipped:
                    self.skipped -= 1
                else:
                    call, self.before_next = self.before_next, None
                    await call()
            return await original(connection, searches, **options)

        monkeypatch.setattr(Connection, "search_many", search_many)
