"""Many documents in one request: cut into bounded pieces, and what the cluster puts off sent again.

One piece is under way at a time, so a cluster that takes longer is sent less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from indexing.errors import StoreError, StoreUnavailableError
from indexing.pauses import Pause
from indexing.store.elasticsearch.connection import TAKES_NONE, WRITING, Connection

# Sending more than a mebibyte in one go holds up the event loop; a node gains nothing from more.
_PIECE_BYTES: Final = 1_000_000
_PIECE_OPERATIONS: Final = 2_000
_INDICES_A_REQUEST: Final = 24

# Statuses of an item that will do better later: a full queue, a shard on its way to another node.
_PUT_OFF: Final = frozenset({429, 502, 503, 504})
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

Action = Literal["create", "index", "delete"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One document to be written or deleted; `guard` holds what its state has to be."""

    action: Action
    index: str
    id: str
    routing: str | None
    source: Mapping[str, Any] | None = None
    guard: Mapping[str, Any] | None = None

    def encode(self) -> bytes:
        """The lines of the request."""
        about: dict[str, Any] = {"_index": self.index, "_id": self.id}
        if self.routing is not None:
            about["routing"] = self.routing
        about.update(self.guard or {})
        line = orjson.dumps({self.action: about}) + b"\n"
        return line if self.source is None else line + orjson.dumps(self.source) + b"\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one operation: an HTTP status, and the kind of error where it is one.

    `version` counts the writes of the document, this one included.
    """

    status: int
    error: str | None = None
    version: int = 0

    @property
    def done(self) -> bool:
        """Whether the document is written, or deleted."""
        return self.error is None

    @property
    def conflicts(self) -> bool:
        """Whether the document was there already, or is not in the state that was asked for."""
        return self.status == 409


async def send(
    connection: Connection,
    operations: Sequence[Operation],
    *,
    visible: bool,
    may_refuse: bool = False,
) -> list[Outcome]:
    """Carry the operations out in their order; one outcome each.

    With `visible`, every search that begins afterwards sees them. A call that is cut short has
    done some of them; repeating it does the rest. With `may_refuse`, a document that the index
    cannot hold is an outcome like any other.

    Raises:
        StoreUnavailableError: the cluster goes on putting some of them off, or an index takes none.
        StoreError: an index cannot hold one of them.
    """
    pieces = await _cut(operations)
    outcomes: list[Outcome] = []
    for piece in pieces:
        outcomes += await _send_piece(connection, piece, visible=visible and len(pieces) == 1)
    if visible and len(pieces) > 1:
        # Once for all of them: each time costs the index a segment of its own.
        touched = sorted({operation.index for operation in operations})
        # Their names are in the line of a request, which a server takes 4,096 bytes of.
        for start in range(0, len(touched), _INDICES_A_REQUEST):
            await connection.refresh(",".join(touched[start : start + _INDICES_A_REQUEST]))
    for outcome in () if may_refuse else outcomes:
        if not (outcome.done or outcome.conflicts):
            raise StoreError(f"Elasticsearch refuses a document ({outcome.error})")
    return outcomes


async def _send_piece(
    connection: Connection, piece: Sequence[tuple[Operation, bytes]], *, visible: bool
) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    waiting = list(range(len(piece)))
    pause = _FIRST_PAUSE
    deadline = time.monotonic() + WRITING.whole
    while waiting:
        answer = await connection.request(
            "POST",
            "/_bulk?refresh=true" if visible else "/_bulk",
            b"".join(piece[number][1] for number in waiting),
            patience=WRITING,
        )
        put_off: list[int] = []
        for number, item in zip(waiting, answer["items"], strict=True):
            (told,) = item.values()
            outcomes[number] = _outcome_of(told)
            if outcomes[number].error in TAKES_NONE and told["status"] not in _PUT_OFF:
                raise StoreUnavailableError(
                    f"Elasticsearch takes no documents ({outcomes[number].error})"
                )
            if told["status"] in _PUT_OFF:
                put_off.append(number)
        waiting = put_off
        if waiting:
            if time.monotonic() > deadline:
                raise StoreUnavailableError(
                    f"Elasticsearch puts off {len(waiting)} documents of {len(piece)}"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    return [outcomes[number] for number in range(len(piece))]


def _outcome_of(told: Mapping[str, Any]) -> Outcome:
    error = told.get("error")
    kind = None if error is None else error.get("type", "error")
    return Outcome(told["status"], kind, told.get("_version", 0))


async def _cut(operations: Sequence[Operation]) -> list[list[tuple[Operation, bytes]]]:
    pieces: list[list[tuple[Operation, bytes]]] = []
    size = 0
    # Thousands of documents take a while to encode.
    pause = Pause()
    for operation in operations:
        lines = operation.encode()
        size += len(lines)
        if not pieces or size > _PIECE_BYTES or len(pieces[-1]) == _PIECE_OPERATIONS:
            pieces.append([])
            size = len(lines)
        pieces[-1].append((operation, lines))
        await pause.if_due()
    return pieces
