"""Adds fields to rows of the search that an earlier release stored without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices import name_trigrams
from indexing.store.elasticsearch.indices.added_fields import add_fields
from indexing.store.elasticsearch.indices.layout import Layout

_ORDER: Final = ({"key": "asc"}, {"pipeline_name": "asc"}, {"job_name": "asc"})


async def fill_trigrams(
    connection: Connection, layout: Layout, renew: Callable[[], Awaitable[None]]
) -> None:
    """Add the trigrams of the name to each row without them, in every generation."""
    await add_fields(
        connection,
        layout.identities_of("*"),
        name_trigrams.FIELD,
        _ORDER,
        _fields_of,
        renew,
        # That of its test.
        keep_version=True,
    )


def _fields_of(source: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name_trigrams.FIELD: name_trigrams.trigrams_for(source["test_name"])}
