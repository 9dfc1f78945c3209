"""The list of quarantined tests, and one of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson
from aiohttp import web

from indexing.models.quarantines import (
    Quarantine,
    QuarantineKey,
    QuarantineQuery,
    QuarantineSource,
)
from indexing.names import RepositoryName
from service import pagination, problems
from service.auth import Operation
from service.context import CONTEXT, admit
from service.listing import Listing, open_list
from service.paths import OWNER, QUARANTINE_ID, REPOSITORY
from service.positions import QUARANTINE_KEYS
from service.schemas.queries import DEFAULT_PER_PAGE, QuarantinesQuery
from service.schemas.responses import QuarantineAnswer, QuarantinesAnswer

DETAIL_PATH: Final = (OWNER, REPOSITORY, QUARANTINE_ID)
LIST: Final = Listing(
    Operation.QUARANTINES, (OWNER, REPOSITORY), QuarantinesQuery(), QUARANTINE_KEYS
)

_LIST: Final = QuarantinesAnswer()
_DETAIL: Final = QuarantineAnswer()


async def list_quarantines(request: web.Request) -> web.Response:
    """GET /v1/ci/{owner}/repositories/{repository}/quarantines.

    All of them, and without links, unless `per_page` or `cursor` asks for a page.
    """
    opened = await open_list(request, LIST)
    context, asked = opened.context, opened.asked
    limit = asked["per_page"] or (DEFAULT_PER_PAGE if asked["cursor"] else None)
    page = await context.reader.list_quarantines(
        make_query(opened.repository, asked, context.clock()), opened.anchor, limit
    )
    link = None
    if limit is not None:
        link = pagination.links(request, context.public_url, opened.walk, page, _key_of)
    body = _LIST.dump({"quarantined_tests": page.rows})
    return web.Response(body=orjson.dumps(body), content_type="application/json", headers=link)


async def get_quarantine(request: web.Request) -> web.Response:
    """GET /v1/ci/{owner}/repositories/{repository}/quarantines/{quarantine_id}."""
    context = request.app[CONTEXT]
    repository = (await admit(request, Operation.QUARANTINE, DETAIL_PATH)).name
    quarantine_id = uuid.UUID(request.match_info[QUARANTINE_ID.name])
    found = await context.reader.get_quarantine(repository, quarantine_id, context.clock())
    if found is None:
        raise problems.not_found("quarantine")
    return web.Response(body=orjson.dumps(_DETAIL.dump(found)), content_type="application/json")


def make_query(
    repository: RepositoryName, asked: Mapping[str, Any], now: datetime
) -> QuarantineQuery:
    """The store's query of checked parameters."""
    source = asked["source"]
    return QuarantineQuery(
        repository=repository,
        now=now,
        branch=asked["branch"],
        test_id=asked["test_id"],
        source=None if source is None else QuarantineSource(source),
    )


def _key_of(row: Quarantine) -> QuarantineKey:
    return row.key
