"""The composition root of the HTTP API: everything is wired here, and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from indexing.store.interface import Store
from service.context import CONTEXT, LIFECYCLE, Clock, Context, Lifecycle, utc_now
from service.cursor import Seal
from service.deadline import answer_in_time
from service.edge import edge
from service.intake import Intake
from service.openapi import build_document
from service.routes import events, operations, quarantines, tests, traces
from service.settings import Settings

# Any segment matches, empty ones too: what is wrong with it is said after the credential is known.
_REPOSITORY: Final = "/v1/repos/{owner:[^/]*}/{repository:[^/]*}"
_CI: Final = "/v1/ci/{owner:[^/]*}/repositories"


def create_app(settings: Settings, store: Store, *, clock: Clock = utc_now) -> web.Application:
    """The application over a store, which it closes when it is cleaned up itself."""
    app = web.Application(
        middlewares=[edge, answer_in_time] if settings.elasticsearch_url else [edge]
    )
    app[LIFECYCLE] = Lifecycle()
    app.cleanup_ctx.append(_context(settings, store, clock))
    app.router.add_get(f"{_REPOSITORY}/logs", events.list_events)
    by_name = f"{_CI}/{{repository_name:[^/]*}}"
    app.router.add_get(f"{by_name}/search/tests", tests.search_tests)
    app.router.add_get(f"{by_name}/tests/{{test_id:[^/]+}}", tests.get_test)
    by_repository = f"{_CI}/{{repository:[^/]*}}"
    app.router.add_get(f"{by_repository}/quarantines", quarantines.list_quarantines)
    app.router.add_get(
        f"{by_repository}/quarantines/{{quarantine_id:[^/]+}}", quarantines.get_quarantine
    )
    if settings.ingest:
        _add_writes(app.router)
    app.router.add_get("/openapi.json", operations.openapi)
    app.router.add_get("/health/live", operations.live)
    app.router.add_get("/health/ready", operations.ready)
    return app


def _add_writes(router: web.UrlDispatcher) -> None:
    router.add_post(f"{_REPOSITORY}/logs", events.send_events)
    router.add_post(f"{_CI}/{{repository:[^/]*}}/traces", traces.send_traces)
    router.add_post(f"{_REPOSITORY}/ci/traces", traces.send_traces)


def _context(
    settings: Settings, store: Store, clock: Clock
) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(app: web.Application) -> AsyncIterator[None]:
        try:
            identity = await store.get_identity()
            app[CONTEXT] = Context(
                reader=store,
                writer=store,
                intake=Intake(),
                clock=clock,
                seal=Seal(
                    _cursor_secret(settings.secret, identity.cursor_secret), identity.store_id
                ),
                public_url=settings.public_url,
                openapi=build_document(settings.public_url, ingest=settings.ingest),
            )
            yield
        finally:
            await store.close()

    return run


def _cursor_secret(configured: str | None, made_by_store: bytes) -> bytes:
    if configured is None:
        return made_by_store
    # The name keeps this key apart from any other that the same setting may come to make.
    return hashlib.blake2b(configured.encode(), person=b"cursor").digest()
