"""Bulk requests: split into bounded pieces, with retries for documents that the cluster defers.

Only one piece is in flight at a time. This gives back-pressure: a slow cluster receives less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import orjson

from indexing.ahead import one_ahead
from indexing.errors import StoreError, StoreUnavailableError
from indexing.fairness import current_tenant
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.client.failures import (
    CONFLICT,
    INDEX_GONE,
    describe,
    error_of_write,
    is_passing,
    refuses_document,
    type_of,
)
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from indexing.yielding import LoopYielder

# The limits of one bulk request. Sending more than a megabyte at once blocks the event loop, and a
# node works no faster with larger requests.
_PIECE_BYTES: Final = 1_000_000
_PIECE_OPERATIONS: Final = 2_000
# Requests on behalf of a tenant are smaller, because other tenants wait while a node works on one.
_SERVED_PIECE_BYTES: Final = 250_000
_SERVED_PIECE_OPERATIONS: Final = 500
_INDICES_A_REQUEST: Final = 24
# What `Outcome` needs: the rest of a response is several times as long.
_TARGET: Final = "/_bulk?filter_path=" + ",".join(
    f"items.*.{name}" for name in ("status", "error", "_version", "_seq_no", "_primary_term")
)

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

Action = Literal["create", "index", "delete"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One document to write or delete; `guard` holds the parameters of its version check.

    `text` is the document as JSON, instead of `source`, if the caller has encoded it.
    """

    action: Action
    index: str
    id: str
    routing: str | None
    source: Mapping[str, Any] | None = None
    guard: Mapping[str, Any] | None = None
    text: bytes | None = None

    def encode(self) -> bytes:
        """Return the lines of the bulk request."""
        about: dict[str, Any] = {"_index": self.index, "_id": self.id}
        if self.routing is not None:
            about["routing"] = self.routing
        about.update(self.guard or {})
        line = orjson.dumps({self.action: about}) + b"\n"
        if self.text is not None:
            return line + self.text + b"\n"
        return line if self.source is None else line + orjson.dumps(self.source) + b"\n"


class Outcome(NamedTuple):
    """The result of one operation: an HTTP status, and the cluster's error if it failed.

    `version` counts the writes of the document, including this one. `written` is what the next
    write has to name to be refused if there was another one in between.
    """

    status: int
    error: Mapping[str, Any] | None = None
    version: int = 0
    written: Version | None = None

    @property
    def done(self) -> bool:
        """Whether the document was written or deleted."""
        return self.error is None

    @property
    def conflicts(self) -> bool:
        """Whether the document existed already, or its version is not the expected one."""
        return self.status == CONFLICT

    @property
    def refused(self) -> bool:
        """Whether the index can never hold the document, whatever the state of the cluster."""
        return self.error is not None and refuses_document(self.status, self.error)

    @property
    def index_gone(self) -> bool:
        """Whether the index does not exist; a write never creates one."""
        return self.error is not None and type_of(self.error) == INDEX_GONE

    @property
    def failed(self) -> bool:
        """Whether it failed, and not because the document existed or had changed."""
        return self.error is not None and not self.conflicts

    def failure(self, operation: Operation) -> StoreError:
        """Return the error to raise for a failed operation."""
        if is_passing(self.status, self.error):
            return StoreUnavailableError(f"Elasticsearch puts off documents ({self.reason})")
        return error_of_write(operation.index, self.status, self.error or {})

    @property
    def reason(self) -> str:
        """The reason that the cluster gives for the failure."""
        return describe(self.error)


async def send(
    connection: Connection,
    operations: Sequence[Operation],
    *,
    visible: bool,
    may_be_gone: bool = False,
) -> list[Outcome]:
    """Execute the operations in order; return one outcome for each.

    With `visible`, every search that begins afterwards sees them. An interrupted call may have
    executed some of them; a repeated call executes the rest. With `may_be_gone`, a missing index is
    returned as an outcome instead of raised.

    Raises:
        StoreUnavailableError: the cluster keeps deferring some of them, or an index accepts none.
        StoreError: an index cannot hold one of them.
    """
    outcomes = await send_each(connection, operations)
    for operation, outcome in zip(operations, outcomes, strict=True):
        if outcome.failed and not (may_be_gone and outcome.index_gone):
            raise outcome.failure(operation)
    if visible:
        await make_visible(connection, operations)
    return outcomes


async def send_each(connection: Connection, operations: Sequence[Operation]) -> list[Outcome]:
    """Execute the operations in order; return one outcome for each, failures included.

    Raises:
        StoreUnavailableError: the cluster does not answer.
    """
    outcomes: list[Outcome] = []
    is_large = len(operations) > SMALL_WRITE
    pieces = _cut(operations)
    # The next piece is encoded while the node works on the last one.
    async with aclosing(one_ahead(pieces) if is_large else pieces) as ready:
        async for piece in ready:
            if is_large:
                await connection.write_priority.give_way()
            outcomes += await _send_piece(connection, piece)
    return outcomes


async def make_visible(connection: Connection, operations: Iterable[Operation]) -> None:
    """Make the operations visible to every search that begins afterwards.

    Concurrent callers share a refresh, because each one costs the index a segment.
    """
    touched = sorted({operation.index for operation in operations})
    # The index names are part of the request line, which a server limits to 4,096 bytes.
    for start in range(0, len(touched), _INDICES_A_REQUEST):
        await connection.refresh(",".join(touched[start : start + _INDICES_A_REQUEST]))


async def _send_piece(
    connection: Connection, piece: Sequence[tuple[Operation, bytes]]
) -> list[Outcome]:
    """Send one piece; retry the documents that the cluster defers, until a write times out."""
    outcomes: dict[int, Outcome] = {}
    waiting = list(range(len(piece)))
    pause = _FIRST_PAUSE
    deadline = time.monotonic() + WRITING.total
    while waiting:
        answer = await connection.request(
            "POST",
            _TARGET,
            b"".join(piece[number][1] for number in waiting),
            timeouts=WRITING,
            needs="items",
        )
        for number, item in zip(waiting, answer["items"], strict=True):
            (result,) = item.values()
            outcomes[number] = Outcome(
                result["status"],
                result.get("error"),
                result.get("_version", 0),
                Version.of(result) if "_seq_no" in result else None,
            )
        waiting = [n for n in waiting if is_passing(outcomes[n].status, outcomes[n].error)]
        if waiting:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    return [outcomes[number] for number in range(len(piece))]


async def _cut(
    operations: Sequence[Operation],
) -> AsyncGenerator[list[tuple[Operation, bytes]]]:
    """Encode the operations; yield them in pieces of one request each."""
    most_bytes, most = _PIECE_BYTES, _PIECE_OPERATIONS
    if current_tenant.get() is not None:
        most_bytes, most = _SERVED_PIECE_BYTES, _SERVED_PIECE_OPERATIONS
    piece: list[tuple[Operation, bytes]] = []
    size = 0
    # Encoding thousands of documents takes long enough to block the event loop.
    yielder = LoopYielder()
    for operation in operations:
        lines = operation.encode()
        size += len(lines)
        if piece and (size > most_bytes or len(piece) == most):
            yield piece
            piece = []
            size = len(lines)
        piece.append((operation, lines))
        await yielder.yield_if_due()
    if piece:
        yield piece
