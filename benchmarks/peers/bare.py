"""The bound: aiohttp handlers that do nothing but read what the service reads.

The service's own paths are answered by one call of its store, and every other path by passing the
request on to Elasticsearch. There are no keys, limits, cursors, links, entity tags or caches, and
parameters are read without a check. What such a handler does not reach, no service on aiohttp
reaches over this store, or with one search a request.
"""

from __future__ import annotations

import argparse
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import uvloop
from aiohttp import ClientSession, TCPConnector, web
from yarl import URL

from benchmarks.peers.floor import serve
from indexing.models.events import EventQuery
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.interface import Reader
from service.schemas.compiled import compile_encoder
from service.schemas.responses import EventPageAnswer, Rows, TestDetailAnswer
from service.schemas.search_pages import ENCODERS
from service.server.process import bind

_encode_test: Final = compile_encoder(TestDetailAnswer)
_encode_events: Final = compile_encoder(EventPageAnswer)
_encode_search: Final = ENCODERS[False, False]

_CI: Final = "/v1/ci/{owner}/repositories/{repository}"
_PER_PAGE: Final = "10"


class Bare:
    """The handlers over one store; `client` passes requests on to the node at `url`, if any."""

    def __init__(self, store: Reader, client: ClientSession, url: str | None) -> None:
        self._store = store
        self._client = client
        self._url = url

    def make_app(self) -> web.Application:
        """Build the application."""
        app = web.Application()
        app.router.add_get("/ready", self.show_ready)
        app.router.add_get(f"{_CI}/tests/{{id}}", self.get_test)
        app.router.add_get(f"{_CI}/search/tests", self.search_tests)
        app.router.add_get("/v1/repos/{owner}/{repository}/logs", self.list_events)
        if self._url is not None:
            app.router.add_get("/{path:.*}", self.pass_on)
        return app

    async def show_ready(self, _request: web.Request) -> web.Response:
        return _json(b"true")

    async def get_test(self, request: web.Request) -> web.Response:
        test = await self._store.get_test(_repository(request), uuid.UUID(request.match_info["id"]))
        return _json(_encode_test(test))

    async def search_tests(self, request: web.Request) -> web.Response:
        asked = request.query
        query = TestQuery(
            _repository(request),
            tuple(asked.getall("test_name")),
            jobs_excluded=tuple(asked.getall("job_name_exclude", ())),
        )
        limit = int(asked.get("per_page", _PER_PAGE))
        page = await self._store.search_tests(query, Anchor(), limit)
        return _json(_encode_search(Rows(page.rows, len(page.rows), limit)))

    async def list_events(self, request: web.Request) -> web.Response:
        asked = request.query
        query = EventQuery(
            _repository(request),
            datetime.fromisoformat(asked["received_from"]),
            datetime.fromisoformat(asked["received_to"]),
        )
        limit = int(asked.get("per_page", _PER_PAGE))
        page = await self._store.list_events(query, Anchor(), limit)
        return _json(_encode_events(Rows([row.body for row in page.rows], len(page.rows), limit)))

    async def pass_on(self, request: web.Request) -> web.Response:
        url = URL(f"{self._url}{request.raw_path}", encoded=True)
        async with self._client.get(url) as answer:
            return web.Response(
                body=await answer.read(), status=answer.status, content_type="application/json"
            )


def _repository(request: web.Request) -> RepositoryName:
    return RepositoryName(request.match_info["owner"], request.match_info["repository"])


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def _serve(place: Path | ElasticsearchPlace, listener: Any) -> None:
    store = await open_store(place)
    url = place.urls[0] if isinstance(place, ElasticsearchPlace) else None
    async with ClientSession(connector=TCPConnector(limit=0)) as client:
        await serve(Bare(store, client, url).make_app(), listener)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, help="that of the SQLite file")
    parser.add_argument("--elasticsearch", help="the URL of the node, instead of a folder")
    parser.add_argument("--prefix", default="", help="that of the indices")
    options = parser.parse_args()
    place = options.folder or ElasticsearchPlace((options.elasticsearch,), options.prefix)
    with bind("127.0.0.1", options.port) as listener:
        uvloop.run(_serve(place, listener))


if __name__ == "__main__":
    main()
