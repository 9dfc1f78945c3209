"""The generations of the search index: which one readers use, and which ones writers write to.

Readers use the generation that the alias names. Writers write to those of the store document, which
must include it. A request of a killed rebuild may execute long after the kill, and two rebuilds may
run at once, so:

- A generation is named in the store document before its index is created. So an index that the
  document does not name any more is never used again, and can be deleted.
- A rebuild deletes the generation that an unfinished rebuild was filling while the document still
  names it. A late swap to that generation then fails, because its index is missing.
- Both the swap and that deletion fail if the alias has left the generation that it named before.
  Elasticsearch executes all actions of such a request, or none. So of the two, only one succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.failures import INDEX_GONE, NOT_FOUND, type_of
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.indices.control import State
from indexing.store.elasticsearch.indices.creation import create_index
from indexing.store.elasticsearch.indices.existing import delete_index, find_index, list_indices
from indexing.store.elasticsearch.indices.filling import WHILE_FILLING, restore_settings

REPLACED: Final = "another rebuild has begun, so this one cannot end; its results are discarded"


async def begin_generation(cluster: Cluster, generation: str) -> str:
    """Create a new generation, which writers write to from now on; return the one of the readers.

    It replaces the generation of an unfinished rebuild.
    """
    serving = await _register(cluster, generation)
    index = cluster.layout.identities_of(generation)
    try:
        await create_index(cluster.connection, index, {"settings": WHILE_FILLING})
    except StoreError:
        # Loads write every row until a rebuild ends; one that cannot begin must not cause that.
        await cluster.control.change(
            lambda state: replace(state, building=None) if state.building == generation else state
        )
        raise
    return serving


async def end_generation(cluster: Cluster, generation: str, serving: str) -> None:
    """Let readers use the filled generation instead of `serving`, and delete all others.

    Raises:
        StoreError: another rebuild has begun.
    """
    index = cluster.layout.identities_of(generation)
    await restore_settings(cluster.connection, index)
    await cluster.connection.refresh(index)
    # Switch the readers first: until the document changes, writers write to both generations.
    answer = await _move_alias(cluster, serving, {"add": _alias_of(cluster, generation)})
    # The connection may have repeated the request, which then fails after its own first attempt.
    if "error" in answer and await _find_serving(cluster) != generation:
        raise StoreError(REPLACED)

    def take_over(state: State) -> State:
        if state.building == generation:
            return replace(state, identities=generation, building=None, has_trigrams=True)
        if state.identities != generation:
            raise StoreError(REPLACED)
        # A rebuild that began after the swap has done this.
        return state

    await cluster.control.change(take_over)
    await _drop_leftovers(cluster)


async def _register(cluster: Cluster, generation: str) -> str:
    """Name the generation in the store document; return the generation that readers use."""
    while True:
        seen = await cluster.control.read()
        serving = await _find_serving(cluster)
        unfinished = seen.building
        if unfinished not in (None, serving) and not await _retire(cluster, unfinished, serving):
            # The unfinished rebuild has just swapped the alias.
            continue

        def begin(state: State, seen: State = seen, serving: str = serving) -> State:
            if state.generations != seen.generations and state.building != generation:
                return state
            # A rebuild that was killed near its end may have swapped the alias but not the
            # document.
            return replace(state, identities=serving, building=generation)

        if (await cluster.control.change(begin)).building == generation:
            return serving


async def _retire(cluster: Cluster, generation: str, serving: str) -> bool:
    """Delete a generation, unless the alias has left `serving`; return whether it is gone."""
    index = cluster.layout.identities_of(generation)
    answer = await _move_alias(
        cluster,
        serving,
        {"add": _alias_of(cluster, serving)},
        {"remove_index": {"index": index}},
    )
    error = answer.get("error")
    return error is None or (type_of(error) == INDEX_GONE and error["index"] == index)


async def _move_alias(cluster: Cluster, serving: str, *actions: Mapping[str, Any]) -> Any:
    """Remove the alias from `serving` and execute the other actions, if `serving` has the alias.

    Otherwise, and if an index is missing, nothing changes and the response has an error.
    """
    removal = {"remove": {**_alias_of(cluster, serving), "must_exist": True}}
    return await cluster.connection.request(
        "POST",
        "/_aliases",
        {"actions": [removal, *actions]},
        allow={NOT_FOUND},
        timeouts=WRITING,
        needs="acknowledged",
    )


def _alias_of(cluster: Cluster, generation: str) -> dict[str, Any]:
    layout = cluster.layout
    return {"index": layout.identities_of(generation), "alias": layout.identities}


async def _find_serving(cluster: Cluster) -> str:
    """Return the generation that the alias names."""
    alias = cluster.layout.identities
    return (await find_index(cluster.connection, alias)).removeprefix(f"{alias}-")


async def _drop_leftovers(cluster: Cluster) -> None:
    """Delete the generations that interrupted rebuilds left behind."""
    layout = cluster.layout
    # List first: the document then names every listed generation that is still to be used.
    found = await list_indices(cluster.connection, layout.identities_of("*"))
    state = await cluster.control.read()
    used = {layout.identities_of(generation) for generation in state.generations}
    for index in found:
        if index not in used:
            await delete_index(cluster.connection, index)
