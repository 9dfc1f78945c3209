"""Writes into time slices. A slice is an index that is created before the first write to it.

No write relies on auto-creation: a cluster may forbid it, and without templates it would guess a
mapping. Each process caches which slices exist. If retention or an operator deletes a slice, the
next write creates it again and resends its documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from indexing.errors import StoreUnavailableError
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.setup import create_index
from indexing.store.elasticsearch.indices.templates import ensure_templates

# Retention deletes a slice once; repeated deletion has another cause.
_ATTEMPTS: Final = 3

# A file of old events may need a slice for each month of ten years. A node creates indices one
# after the other, so more at once would exceed the timeout of a request.
_CREATED_AT_ONCE: Final = 4


class TimeSlices:
    """The slices of one installation, with one process's cache of their names."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._known: set[str] = set()

    def are_known(self, indices: Iterable[str]) -> bool:
        """Return whether all of these slices are in the cache."""
        return self._known.issuperset(indices)

    async def list_executions(self) -> list[str]:
        """Return the slices of executions that exist now, whichever process created them."""
        pattern = self._layout.executions
        target = f"/{pattern}/_settings?filter_path=*.settings.index.uuid"
        return sorted(await self._connection.request("GET", target, patience=WRITING))

    async def ensure(self, indices: Iterable[str]) -> None:
        """Create the slices that are not in the cache.

        Raises:
            StoreUnavailableError: the cluster cannot create one.
        """
        missing = sorted(set(indices) - self._known)
        if missing:
            # A slice gets its mapping from them, and restoring a snapshot does not restore them.
            await ensure_templates(self._connection, self._layout)
        for start in range(0, len(missing), _CREATED_AT_ONCE):
            some = missing[start : start + _CREATED_AT_ONCE]
            await self._create(some)
            self._known.update(some)

    async def _create(self, names: Sequence[str]) -> None:
        # Wait for all of them before raising a failure, so that no request is left running.
        ended = await asyncio.gather(
            *(create_index(self._connection, name) for name in names), return_exceptions=True
        )
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure

    async def send(
        self, operations: Sequence[Operation], *, visible: bool, may_refuse: bool = False
    ) -> list[Outcome]:
        """Execute operations on slices; create missing slices first.

        Outcomes and errors are those of `bulk.send`.

        Raises:
            StoreUnavailableError: the cluster cannot create a slice.
        """
        outcomes: dict[int, Outcome] = {}
        waiting = list(range(len(operations)))
        for _ in range(_ATTEMPTS):
            await self.ensure(operations[number].index for number in waiting)
            sent = await bulk.send(
                self._connection,
                [operations[number] for number in waiting],
                visible=visible,
                may_refuse=may_refuse,
                may_be_gone=True,
            )
            outcomes.update(zip(waiting, sent, strict=True))
            waiting = [number for number in waiting if outcomes[number].index_gone]
            if not waiting:
                return [outcomes[number] for number in range(len(operations))]
            self._known -= {operations[number].index for number in waiting}
        raise StoreUnavailableError(
            f"the index {operations[waiting[0]].index} is deleted as often as it is created"
        )
