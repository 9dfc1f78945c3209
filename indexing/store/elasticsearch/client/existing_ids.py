"""Finds out which of many ids one index has, even before a refresh, in few small requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import INDEX_GONE, error_of, type_of

_IDS_A_REQUEST: Final = 2_000


async def find_existing(
    connection: Connection,
    index: str,
    ids: Sequence[str],
    routing: str,
    fields: Sequence[str] = (),
) -> dict[str, Mapping[str, Any]]:
    """Return these fields of each document that exists, by id; a missing index has none.

    The ids are looked up one by one, which costs less than a search if the index has unrefreshed
    documents: a search would have to wait for a refresh, which writes a segment.
    """
    found: dict[str, Mapping[str, Any]] = {}
    parameters = {
        "routing": routing,
        "_source": ",".join(fields) or "false",
        # The rest of a response is as long as the request.
        "filter_path": "docs.found,docs._source,docs.error",
    }
    target = f"/{index}/_mget?{urlencode(parameters)}"
    for start in range(0, len(ids), _IDS_A_REQUEST):
        some = ids[start : start + _IDS_A_REQUEST]
        answer = await connection.request(
            "POST", target, {"ids": some}, timeouts=WRITING, needs="docs"
        )
        for each_id, each in zip(some, answer["docs"], strict=True):
            if "error" in each:
                if type_of(each["error"]) != INDEX_GONE:
                    raise error_of(503, each)
            elif each["found"]:
                found[each_id] = each.get("_source", {})
    return found
