"""Upgrades indices of an earlier layout version to the current one.

New indices are created, and new fields are added in place to the mappings of every index. Other
changes, such as another type for a field, need a copy into a new generation of the index; an atomic
alias swap then gives it the old one's name. `COPIES` lists what each version needs beyond new
fields. During an upgrade reads work as before; writes to an index that is being copied wait or fail
as "unavailable".

Three kinds are never copied. The identities are derived, so `rebuild` fills a new generation; until
then, searches do not use the trigrams of version 9, which older rows lack. Slices of events and
executions only get new fields, under new names; `FILLS` lists the functions that add these to older
rows, and retention removes older slices. The longer branches of version 10 are searchable only in
events that are written after the upgrade. The control index, which contains the lease, only gets
new fields too.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.indices.control import Control, read_layout_version
from indexing.store.elasticsearch.indices.creation import create_missing
from indexing.store.elasticsearch.indices.event_fields import fill_outcomes
from indexing.store.elasticsearch.indices.existing import list_indices
from indexing.store.elasticsearch.indices.generations import Change, copy_index, drop_leftovers
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, Layout
from indexing.store.elasticsearch.indices.repository_fields import fill_names
from indexing.store.elasticsearch.indices.templates import ensure_templates
from indexing.store.elasticsearch.indices.upgrade_lease import hold_lease

# By target version: the fixed indices to copy, by kind, each with its change.
COPIES: Final[dict[int, dict[str, Change]]] = {}

Fill = Callable[[Connection, Layout, Callable[[], Awaitable[None]]], Awaitable[None]]

# By target version: the function that adds new fields to existing rows.
FILLS: Final[dict[int, Fill]] = {3: fill_outcomes, 8: fill_names}

_log = logging.getLogger(__name__)


async def upgrade(connection: Connection, layout: Layout) -> None:
    """Upgrade the layout; of several processes, one upgrades and the others wait.

    If that process is killed, everything stays readable and the next process starts over.

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
        await create_missing(connection, layout)
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
        fills = [FILLS[n] for n in range(found + 1, LAYOUT_VERSION + 1) if n in FILLS]
        for fill in fills:
            await fill(connection, layout, lease.renew)
        await lease.renew()
        control = Control(connection, layout)
        # Before version 7, the state lacked the indices of executions.
        await control.set_version(await list_indices(connection, layout.executions))
        # Do this again: processes of the earlier release may have written until the version
        # changed.
        await control.add_slices(await list_indices(connection, layout.executions))
        for fill in fills:
            await fill(connection, layout, lease.renew)
        await drop_leftovers(connection, layout)
        _log.warning("upgraded the indices to version %d", LAYOUT_VERSION)


async def _add_fields(connection: Connection, layout: Layout, copied: frozenset[str]) -> None:
    """Add new fields to every index that is not copied."""
    for index, fields in layout.mappings.items():
        if index.removeprefix(f"{layout.prefix}-") in copied:
            continue
        try:
            await connection.request(
                "PUT",
                f"/{index}/_mapping?allow_no_indices=true",
                {"properties": fields},
                timeouts=WRITING,
                needs="acknowledged",
            )
        except StoreError as error:
            raise type(error)(f"the mapping of {index} cannot be extended: {error}") from error
