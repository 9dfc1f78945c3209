"""The peer: a small FastAPI application with the same paths, over the configured store and cache.

Idiomatic FastAPI with cheap optimisations: compiled code of pydantic or orjson encodes the
responses, and cached ones are sent as they are. It has no scopes, problem bodies,
ETags, signed cursors or invalidation.
"""

import base64
import hashlib
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlencode
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response

from benchmarks.peers.caches import MemoryCache, RedisCache
from benchmarks.peers.elasticsearch import ElasticsearchStore
from benchmarks.peers.interface import EventPlace, PeerCache, PeerStore, Search
from benchmarks.peers.models import Quarantines, Tests
from benchmarks.peers.settings import PEER_SETTINGS
from benchmarks.peers.sqlite import SqliteStore

_ALLOWED: Final = b"1"

router = APIRouter()

Ask = Callable[[], Awaitable[bytes | None]]


def make_app() -> FastAPI:
    """Build the application that the environment configures."""
    url = os.environ.get(PEER_SETTINGS.elasticsearch_url)
    store: PeerStore = (
        ElasticsearchStore(url, os.environ[PEER_SETTINGS.elasticsearch_prefix])
        if url
        else SqliteStore(Path(os.environ[PEER_SETTINGS.sqlite_path]))
    )
    redis_url = os.environ.get(PEER_SETTINGS.redis_url)
    return build(store, RedisCache(redis_url) if redis_url else MemoryCache())


def build(store: PeerStore, cache: PeerCache) -> FastAPI:
    """Build the application over a store and a cache."""
    app = FastAPI()
    app.state.store = store
    app.state.cache = cache
    app.include_router(router)
    return app


async def admit(request: Request, owner: str, repository: str) -> str:
    """Return the repository if the request's key may read it."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise HTTPException(403)
    digest = hashlib.sha256(token.encode()).digest()
    name = f"{owner}/{repository}".lower()
    kept = f"key:{digest.hex()}:{name}"
    cache: PeerCache = request.app.state.cache
    if await cache.get(kept) is None:
        if not await request.app.state.store.is_allowed(digest, name):
            raise HTTPException(403)
        await cache.set(kept, _ALLOWED)
    return name


def _store(request: Request) -> PeerStore:
    store: PeerStore = request.app.state.store
    return store


Repository = Annotated[str, Depends(admit)]
Store = Annotated[PeerStore, Depends(_store)]
PerPage = Annotated[int, Query(ge=1, le=100)]
Names = Annotated[list[str], Query()]


async def _answer(request: Request, key: str, ask: Ask) -> Response:
    """Return the cached response for that key, else compute it and cache it."""
    cache: PeerCache = request.app.state.cache
    body = await cache.get(key)
    if body is None:
        body = await ask()
        if body is None:
            raise HTTPException(404)
        await cache.set(key, body)
    return Response(body, media_type="application/json")


@router.get("/v1/ci/{owner}/repositories/{repository}/tests/{test_id}")
async def get_test(request: Request, store: Store, name: Repository, test_id: UUID) -> Response:
    async def ask() -> bytes | None:
        found = await store.find_test(name, test_id)
        return None if found is None else found.model_dump_json().encode()

    return await _answer(request, f"test:{name}:{test_id}", ask)


@router.get("/v1/ci/{owner}/repositories/{repository}/quarantines")
async def list_quarantines(
    request: Request, store: Store, name: Repository, branch: str | None = None
) -> Response:
    async def ask() -> bytes:
        found = await store.list_quarantines(name, branch)
        return Quarantines(quarantined_tests=found).model_dump_json().encode()

    return await _answer(request, f"quarantines:{name}:{branch}", ask)


@router.get("/v1/ci/{owner}/repositories/{repository}/search/tests")
async def search_tests(
    request: Request,
    store: Store,
    name: Repository,
    test_name: Names,
    job_name_exclude: Names = [],  # noqa: B006 - FastAPI's own way
    per_page: PerPage = 10,
) -> Response:
    async def ask() -> bytes:
        found = await store.search_tests(Search(name, test_name, job_name_exclude, per_page))
        page = Tests(size=len(found), per_page=per_page, tests=found)
        return page.model_dump_json().encode()

    return await _answer(request, f"search:{name}:{request.url.query}", ask)


@router.get("/v1/repos/{owner}/{repository}/logs")
async def list_events(
    request: Request,
    store: Store,
    name: Repository,
    received_from: datetime,
    received_to: datetime,
    cursor: str | None = None,
    per_page: PerPage = 10,
) -> Response:
    after = None if cursor is None else _place_of(cursor)
    page = await store.list_events(name, received_from, received_to, after, per_page)
    headers = {}
    if page.next is not None:
        query = {**request.query_params, "cursor": _cursor_of(page.next)}
        link = f"{request.url.replace(query='')}?{urlencode(query)}"
        headers["Link"] = f'<{link}>; rel="next"'
    body = {"size": len(page.events), "per_page": per_page, "events": page.events}
    return Response(orjson.dumps(body), media_type="application/json", headers=headers)


def _cursor_of(place: EventPlace) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([place.received_at, place.id])).decode()


def _place_of(cursor: str) -> EventPlace:
    return EventPlace(*orjson.loads(base64.urlsafe_b64decode(cursor)))
