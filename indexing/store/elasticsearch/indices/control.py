"""The store document: the store's identity, its retention marks and its identity generation."""

from __future__ import annotations

import base64
import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from indexing.errors import StoreUnavailableError, StoreVersionError
from indexing.store.elasticsearch.client.connection import (
    WRITING,
    ConflictError,
    Connection,
    Document,
)
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, Layout
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.interface import StoreIdentity

STORE_DOCUMENT: Final = "store"

# How long readers may use cached retention marks. For so long they still see rows that another
# process has just pruned.
_REMEMBERED_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class State:
    """The content of the store document.

    `identities` is the generation of the identity index that readers use; `building` is the one
    that a rebuild is filling. Writers write to both.
    """

    identity: StoreIdentity
    retention: Retention
    identities: str
    building: str | None = None

    @property
    def generations(self) -> tuple[str, ...]:
        """All generations that writers write to."""
        return (self.identities,) if self.building is None else (self.identities, self.building)


class Control:
    """Reads and changes the store document in the control index."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._retention = Retention()
        self._read_at = float("-inf")

    async def read(self) -> State:
        """Return the current state."""
        return self._note(await self._find())

    async def read_with(
        self, places: Sequence[tuple[str, str, str | None]]
    ) -> tuple[State, list[Document | None]]:
        """Return the state and some documents, by (index, id, routing), in one request."""
        own = (self._layout.control, STORE_DOCUMENT, None)
        document, *others = await self._connection.get_many([own, *places], patience=WRITING)
        return self._note(_require(document)), others

    async def read_retention(self) -> Retention:
        """Return the retention marks, at most a few seconds old."""
        if time.monotonic() - self._read_at > _REMEMBERED_SECONDS:
            await self.read()
        return self._retention

    async def change(self, change: Callable[[State], State]) -> State:
        """Apply `change` to the state and store the result; retries call `change` again."""
        while True:
            document = await self._find()
            changed = change(self._note(document))
            try:
                await self._connection.put(
                    self._layout.control,
                    STORE_DOCUMENT,
                    _source_of(changed),
                    over=document.version,
                )
            except ConflictError:
                continue
            self._retention = changed.retention
            return changed

    async def set_version(self) -> None:
        """Store the layout version of this program."""
        while True:
            document = await self._find()
            changed = {**document.source, "version": LAYOUT_VERSION}
            try:
                await self._connection.put(
                    self._layout.control, STORE_DOCUMENT, changed, over=document.version
                )
            except ConflictError:
                continue
            return

    async def _find(self) -> Document:
        found = await self._connection.get(self._layout.control, STORE_DOCUMENT)
        return _require(found)

    def _note(self, document: Document) -> State:
        state = state_of(document)
        self._retention = state.retention
        self._read_at = time.monotonic()
        return state


def _require(document: Document | None) -> Document:
    if document is None:
        raise StoreUnavailableError("the store is gone from Elasticsearch")
    return document


async def read_layout_version(connection: Connection, layout: Layout) -> int:
    """Return the layout version of the indices, even if this program does not know it."""
    version: int = _require(await connection.get(layout.control, STORE_DOCUMENT)).source["version"]
    return version


def version_error(version: object) -> StoreVersionError:
    """Build the error for a layout of another version; its message says what to do."""
    return StoreVersionError(
        f"the indices in Elasticsearch are of version {version}; this release of mergewatch works"
        f" on version {LAYOUT_VERSION}. Where they are newer, run the release that upgraded them;"
        " where they are older, `mergewatch index create` upgrades them"
    )


def new_state(generation: str) -> dict[str, Any]:
    """Build the document of a new store."""
    return _source_of(
        State(StoreIdentity(uuid.uuid4().hex, secrets.token_bytes(32)), Retention(), generation)
    )


def state_of(document: Document) -> State:
    """Parse the store document.

    Raises:
        StoreVersionError: the indices have another version.
    """
    source = document.source
    version = source.get("version")
    if version != LAYOUT_VERSION:
        raise version_error(version)
    return State(
        StoreIdentity(source["store_id"], base64.b64decode(source["cursor_secret"])),
        Retention(tuple((before, epoch) for before, epoch in source["pruned"]), source["epoch"]),
        source["identities"],
        source["building"],
    )


def _source_of(state: State) -> dict[str, Any]:
    return {
        "kind": "store",
        "version": LAYOUT_VERSION,
        "store_id": state.identity.store_id,
        "cursor_secret": base64.b64encode(state.identity.cursor_secret).decode(),
        "pruned": state.retention.marks,
        "epoch": state.retention.epoch,
        "identities": state.identities,
        "building": state.building,
    }


def advance(state: State, before: int) -> State:
    """Return the state with a retention mark at that moment added."""
    return replace(state, retention=state.retention.advanced(before))
