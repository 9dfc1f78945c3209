"""Shows the answers of Elasticsearch to the requests of a store in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from indexing.store.elasticsearch.client.connection import Connection


@contextmanager
def answers_seen(see: Callable[[Any], None]) -> Iterator[None]:
    """Call `see` with each answer until the context exits."""
    request = Connection.request

    async def watched(connection: Connection, *args: Any, **options: Any) -> Any:
        answer = await request(connection, *args, **options)
        see(answer)
        return answer

    with patch.object(Connection, "request", watched):
        yield
