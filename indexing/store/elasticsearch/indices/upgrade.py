"""Brings the indices of an earlier layout to the one that this program knows.

New fields are added to the mappings of every index in place. What cannot be added in place, such as
another type of a field, is copied into a new generation of the index, which takes the old one's
name as an alias in one step. `COPIES` says what each version needs beyond new fields. Meanwhile
everything is read as before; writes to an index that is being copied wait or are refused as
"unavailable".

Three kinds are never copied. The identities are derived, so `rebuild` fills a new generation.
Slices of events and executions only ever get new fields, under new names, and older slices end
with retention. The control index, which the lease is in, only gets new fields too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.indices.control import Control, read_layout_version
from indexing.store.elasticsearch.indices.generations import copy_index, drop_leftovers
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, Layout
from indexing.store.elasticsearch.indices.lease import hold_lease
from indexing.store.elasticsearch.indices.templates import ensure_templates

# What a document of the earlier version is in the next one.
Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]

# By the version that they lead to: fixed indices, by their kind, to be copied with a change.
COPIES: Final[dict[int, dict[str, Change]]] = {}

_log = logging.getLogger(__name__)


async def upgrade(connection: Connection, layout: Layout) -> None:
    """Upgrade the layout; of several processes one does, and the others wait for it.

    A process that is killed meanwhile leaves everything readable; the next one begins anew.

    Raises:
        StoreVersionError: the layout is newer than this program.
    """

    async def is_done() -> bool:
        return await read_layout_version(connection, layout) >= LAYOUT_VERSION

    async with hold_lease(connection, layout, is_done) as lease:
        if lease is None:
            return
        found = await read_layout_version(connection, layout)
        _log.warning(
            "upgrading the indices %s-* from version %d to %d", layout.prefix, found, LAYOUT_VERSION
        )
        await ensure_templates(connection, layout)
        copied = {
            kind: changes
            for version in range(found + 1, LAYOUT_VERSION + 1)
            for kind, changes in COPIES.get(version, {}).items()
        }
        await _add_fields(connection, layout, frozenset(copied))
        for kind in copied:
            changes = [
                COPIES[version][kind]
                for version in range(found + 1, LAYOUT_VERSION + 1)
                if kind in COPIES.get(version, {})
            ]
            await copy_index(connection, layout, kind, changes, LAYOUT_VERSION, lease.renew)
        await lease.renew()
        await Control(connection, layout).set_version()
        await drop_leftovers(connection, layout)
        _log.warning("upgraded the indices to version %d", LAYOUT_VERSION)


async def _add_fields(connection: Connection, layout: Layout, copied: frozenset[str]) -> None:
    """Add new fields to every index that stays as it is."""
    for index, fields in layout.mappings.items():
        if index.removeprefix(f"{layout.prefix}-") in copied:
            continue
        try:
            await connection.request(
                "PUT",
                f"/{index}/_mapping?allow_no_indices=true",
                {"properties": fields},
                patience=WRITING,
            )
        except StoreError as error:
            raise type(error)(f"the mapping of {index} cannot be extended: {error}") from error
