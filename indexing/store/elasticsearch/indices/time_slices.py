"""Writes into time slices. A slice is an index that is created before the first write to it.

No write relies on auto-creation: a cluster may forbid it, and without templates it would guess a
mapping. Each process caches which slices exist. If retention or an operator deletes a slice, the
next write creates it again and resends its documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices.control import Control
from indexing.store.elasticsearch.indices.creation import create_index
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.templates import ensure_templates

# How often a write creates a missing slice and tries again. Retention deletes a slice only once, so
# repeated deletion has another cause.
_ATTEMPTS: Final = 3

# A file of old events may need a slice for each month of ten years. A node creates indices one
# after the other, so more at once would exceed the timeout of a request.
_CREATED_AT_ONCE: Final = 4


class TimeSlices:
    """The time slices of one installation, with this process's cache of their names."""

    def __init__(self, connection: Connection, layout: Layout, control: Control) -> None:
        self._connection = connection
        self._layout = layout
        self._control = control
        self._known: set[str] = set()

    def are_known(self, indices: Iterable[str]) -> bool:
        """Return whether all of these slices are in the cache."""
        return self._known.issuperset(indices)

    async def ensure(self, indices: Iterable[str]) -> None:
        """Create the slices that are not in the cache.

        Raises:
            StoreUnavailableError: the cluster cannot create one.
        """
        for failure in (await self._create_missing(indices)).values():
            raise failure

    async def _create_missing(self, indices: Iterable[str]) -> dict[str, StoreError]:
        """Create the slices that are not in the cache; return an error for each that is missing."""
        missing = sorted(set(indices) - self._known)
        if missing:
            # A slice gets its mapping from the templates. They may be missing, because restoring a
            # snapshot does not restore them.
            await ensure_templates(self._connection, self._layout)
        failures: dict[str, StoreError] = {}
        for start in range(0, len(missing), _CREATED_AT_ONCE):
            some = missing[start : start + _CREATED_AT_ONCE]
            # Wait for all of them, so that no request is left running.
            ended = await asyncio.gather(
                *(create_index(self._connection, name) for name in some), return_exceptions=True
            )
            for name, failure in zip(some, ended, strict=True):
                if isinstance(failure, StoreError):
                    failures[name] = failure
                elif isinstance(failure, BaseException):
                    raise failure
            created = [name for name in some if name not in failures]
            of_executions = [each for each in created if self._layout.is_of_executions(each)]
            if of_executions:
                await self._control.add_slices(of_executions)
            self._known.update(created)
            if failures:
                # Do not try the remaining slices: they would fail too, perhaps only after a
                # minute each.
                untried = missing[start + _CREATED_AT_ONCE :]
                return failures | dict.fromkeys(untried, failures[max(failures)])
        return {}

    async def send(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Execute operations on slices, without making them visible; create missing slices first.

        Raises:
            StoreUnavailableError: the cluster cannot create a slice, or an index accepts nothing.
            StoreError: an index cannot hold a document.
        """
        outcomes: list[Outcome] = []
        for operation, outcome in zip(operations, await self.send_each(operations), strict=True):
            if isinstance(outcome, StoreError):
                raise outcome
            if outcome.failed:
                raise outcome.failure(operation)
            outcomes.append(outcome)
        return outcomes

    async def send_each(self, operations: Sequence[Operation]) -> list[Outcome | StoreError]:
        """Do the same as `send`, but return failures, so that one slice does not affect the others.

        Raises:
            StoreUnavailableError: the cluster does not answer.
        """
        outcomes: dict[int, Outcome | StoreError] = {}
        waiting = list(range(len(operations)))
        for _ in range(_ATTEMPTS):
            failures = await self._create_missing(operations[n].index for n in waiting)
            outcomes |= {
                n: failures[operations[n].index] for n in waiting if operations[n].index in failures
            }
            waiting = [number for number in waiting if number not in outcomes]
            sent = await bulk.send_each(self._connection, [operations[n] for n in waiting])
            gone = [n for n, outcome in zip(waiting, sent, strict=True) if outcome.index_gone]
            outcomes |= {
                n: outcome
                for n, outcome in zip(waiting, sent, strict=True)
                if not outcome.index_gone
            }
            waiting = gone
            if not waiting:
                break
            self._known -= {operations[number].index for number in waiting}
        for number in waiting:
            outcomes[number] = StoreUnavailableError(
                f"the index {operations[number].index} is deleted as often as it is created"
            )
        return [outcomes[number] for number in range(len(operations))]
