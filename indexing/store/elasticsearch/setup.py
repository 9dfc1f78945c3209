"""Lays the indices out in a cluster that has none, and refuses one that this program cannot use."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from indexing.errors import StoreUnavailableError, StoreVersionError
from indexing.store.elasticsearch.connection import (
    WRITING,
    ConflictError,
    Connection,
    Document,
    Version,
)
from indexing.store.elasticsearch.control import STORE_DOCUMENT, new_state, state_of
from indexing.store.elasticsearch.failures import describe, type_of
from indexing.store.elasticsearch.layout import MIN_SERVER_MAJOR, Layout

FIRST_GENERATION: Final = "1"

_BAD_REQUEST: Final = 400
_THERE_ALREADY: Final = "resource_already_exists_exception"
_MISSING: Final = 404


async def ensure_layout(connection: Connection, layout: Layout) -> None:
    """Make what is missing; any number of processes may do so at once.

    Raises:
        StoreVersionError: the server is too old, or the indices are of another version.
    """
    await _check_server(connection)
    found = await connection.request(
        "GET", f"/{layout.control}/_doc/{STORE_DOCUMENT}", allow={_MISSING}, patience=WRITING
    )
    if found.get("found"):
        version = Version(found["_seq_no"], found["_primary_term"])
        state_of(Document(found["_id"], found["_source"], version))
        # A snapshot brings the indices back without them.
        await ensure_templates(connection, layout)
        return
    # New indices take their form from the templates, so these come first; the document that says
    # that all of it is there comes last.
    await _put_templates(connection, layout)
    generation = layout.identities_of(FIRST_GENERATION)
    await asyncio.gather(
        *(create_index(connection, name) for name in layout.fixed),
        create_index(connection, generation, {"aliases": {layout.identities: {}}}),
    )
    try:
        await connection.put(layout.control, STORE_DOCUMENT, new_state(FIRST_GENERATION))
    except ConflictError:
        # Another process was as far a moment earlier.
        return


async def ensure_templates(connection: Connection, layout: Layout) -> None:
    """Put the templates in place where one of them is missing."""
    if not await _has_templates(connection, layout):
        await _put_templates(connection, layout)


async def _has_templates(connection: Connection, layout: Layout) -> bool:
    answer = await connection.request(
        "GET",
        f"/_index_template/{layout.prefix}-*?filter_path=index_templates.name",
        allow={_MISSING},
        patience=WRITING,
    )
    there = {template["name"] for template in (answer or {}).get("index_templates", ())}
    return there.issuperset(layout.templates)


async def _put_templates(connection: Connection, layout: Layout) -> None:
    for kind, templates in (
        ("_component_template", layout.components),
        ("_index_template", layout.templates),
    ):
        await asyncio.gather(
            *(
                connection.request("PUT", f"/{kind}/{name}", body, patience=WRITING)
                for name, body in templates.items()
            )
        )


async def create_index(
    connection: Connection, name: str, body: dict[str, Any] | None = None
) -> None:
    """Make an index by its template; one that is there already stays as it is.

    Raises:
        StoreUnavailableError: the cluster has no room for it, or does not allow it.
    """
    try:
        answer = await connection.request(
            "PUT", f"/{name}", body or {}, allow={_BAD_REQUEST}, patience=WRITING
        )
    except StoreUnavailableError as failure:
        raise StoreUnavailableError(f"the index {name} cannot be created: {failure}") from failure
    error = answer.get("error")
    if error is not None and type_of(error) != _THERE_ALREADY:
        # Its form is this project's and the operator's own: no sender can change what is wrong.
        raise StoreUnavailableError(
            f"Elasticsearch cannot create the index {name} ({describe(error)})"
        )


async def _check_server(connection: Connection) -> None:
    answer = await connection.request(
        "GET", "/_nodes/_all/none?filter_path=nodes.*.version", patience=WRITING
    )
    for node in answer["nodes"].values():
        version = node["version"]
        if int(version.partition(".")[0]) < MIN_SERVER_MAJOR:
            raise StoreVersionError(
                f"the Elasticsearch there is of version {version};"
                f" this program needs {MIN_SERVER_MAJOR}.0 or later"
            )
