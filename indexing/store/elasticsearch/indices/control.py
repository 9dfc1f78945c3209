"""The store document: the store's identity, its retention marks and its identity generation."""

from __future__ import annotations

import base64
import secrets
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from indexing.errors import StoreUnavailableError, StoreVersionError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, Layout
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.interface import StoreIdentity

STORE_DOCUMENT: Final = "store"

# How long readers may use cached retention marks. During this time they may still see rows that
# another process has just pruned.
_REMEMBERED_SECONDS: Final = 5.0
# How long a process may search without the trigrams that a rebuild has added.
_REBUILDS_SEEN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class State:
    """The content of the store document.

    `identities` is the generation of the identity index that readers use; `building` is the one
    that a rebuild is filling. Writers write to both. `has_trigrams` is whether all rows that
    readers use have the trigrams of their names. `slices` are the names of the indices of
    executions: a name is added before the first write to its index, so that writers can look up ids
    in all of them.
    """

    identity: StoreIdentity
    retention: Retention
    identities: str
    building: str | None = None
    slices: frozenset[str] = frozenset()
    has_trigrams: bool = False

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
        self._slices: frozenset[str] = frozenset()
        self._has_trigrams = False

    async def read(self) -> State:
        """Return the current state."""
        return self._note(await self._find())

    @property
    def slices(self) -> frozenset[str]:
        """The indices of executions, as this process last read them."""
        return self._slices

    async def read_with(
        self, places: Sequence[Place], *, may_be_gone: bool = False
    ) -> tuple[State, list[Document | None]]:
        """Return the state and the documents at these places, in one request."""
        own = Place(self._layout.control, STORE_DOCUMENT)
        document, *others = await self._connection.get_many(
            [own, *places], may_be_gone=may_be_gone, timeouts=WRITING
        )
        return self._note(_require(document)), others

    async def read_retention(self) -> Retention:
        """Return the retention marks, at most a few seconds old."""
        if time.monotonic() - self._read_at > _REMEMBERED_SECONDS:
            await self.read()
        return self._retention

    async def has_trigrams(self) -> bool:
        """Return whether rows have trigrams; a rebuild that adds them is seen within a minute."""
        if not self._has_trigrams and time.monotonic() - self._read_at > _REBUILDS_SEEN_SECONDS:
            await self.read()
        return self._has_trigrams

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
            self._slices = changed.slices
            return changed

    async def add_slices(self, names: Collection[str]) -> None:
        """Add the names of indices of executions to the state, unless it contains them."""
        state = await self.read()
        if not state.slices.issuperset(names):
            await self.change(lambda state: replace(state, slices=state.slices.union(names)))

    async def drop_slices(self, names: Collection[str]) -> None:
        """Remove the names of indices of executions from the state, before they are deleted.

        A process that creates one of them again adds its name again.
        """
        await self.change(lambda state: replace(state, slices=state.slices.difference(names)))

    async def replace_slices(self, names: Collection[str]) -> None:
        """Let the state have these names, and no others but those of the prefix of this store."""

        def replace_others(state: State) -> State:
            own = filter(self._layout.is_of_executions, state.slices)
            return replace(state, slices=frozenset([*names, *own]))

        await self.change(replace_others)

    async def set_version(self, slices: Collection[str]) -> None:
        """Store the layout version of this program, and the names of all indices of executions."""
        while True:
            document = await self._find()
            changed = {**document.source, "version": LAYOUT_VERSION, "slices": sorted(slices)}
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
        self._slices = state.slices
        self._has_trigrams = state.has_trigrams
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
        State(
            StoreIdentity(uuid.uuid4().hex, secrets.token_bytes(32)),
            Retention(),
            generation,
            has_trigrams=True,
        )
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
        frozenset(source["slices"]),
        # Stores of earlier versions have none until a rebuild.
        source.get("trigrams", False),
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
        "slices": sorted(state.slices),
        "trigrams": state.has_trigrams,
    }


def advance(state: State, before: int) -> State:
    """Return the state with a retention mark at that moment added."""
    return replace(state, retention=state.retention.advanced(before))
