"""The composition root of the HTTP API: everything is wired here, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Final

from aiohttp import web

from indexing.store.interface import Store
from service.auth.code_host.access import CodeHost
from service.cache.invalidation import InvalidatingStore
from service.cache.opening import open_backend
from service.cache.session import Cache
from service.config.secret import choose_secret
from service.config.settings import Settings
from service.context import CONTEXT, LIFECYCLE, Clock, Context, Lifecycle, utc_now
from service.handlers import events, operations, quarantines, tests, traces
from service.handlers.respond import without_parameters
from service.http.operations import Operation
from service.ingest.limiter import LIMITER, RequestBodyLimiter
from service.middleware.admission_control import ADMISSION_CONTROL, AdmissionControl
from service.middleware.cors import CORS, Cors
from service.middleware.errors import handle_errors
from service.middleware.metrics import METRICS, Metrics
from service.middleware.rate_limit import RATE_LIMIT, RateLimit
from service.middleware.response_cache import RESPONSE_CACHE, Handler, ResponseCache
from service.middleware.timeout import limit_time
from service.openapi import build_document
from service.pagination.cursor import CursorSigner
from service.routes import READ_ROUTES, WRITE_ROUTES

RouteHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Each operation of `service.routes` and its handler.
_HANDLERS: Final[Mapping[Operation, RouteHandler]] = {
    Operation.EVENTS: events.list_events,
    Operation.SEARCH: tests.search_tests,
    Operation.TEST: tests.get_test,
    Operation.QUARANTINES: quarantines.list_quarantines,
    Operation.QUARANTINE: quarantines.get_quarantine,
    Operation.SEND_EVENTS: without_parameters(events.send_events),
    Operation.SEND_TRACES: without_parameters(traces.send_traces),
}


def create_app(settings: Settings, store: Store, *, clock: Clock = utc_now) -> web.Application:
    """The application over a store, which it closes when it is cleaned up itself."""
    middlewares = [handle_errors(ingest=settings.ingest)]
    if settings.elasticsearch_url:
        middlewares.append(limit_time)
    app = web.Application(middlewares=middlewares)
    app[LIFECYCLE] = Lifecycle()
    app.cleanup_ctx.append(_context(settings, store, clock))
    for route in READ_ROUTES:
        # It serves HEAD as well.
        app.router.add_get(route.path_pattern, _HANDLERS[route.operation])
    if settings.ingest:
        for route in WRITE_ROUTES:
            app.router.add_post(route.path_pattern, _HANDLERS[route.operation])
    if settings.metrics:
        app.router.add_get("/metrics", without_parameters(operations.metrics))
    app.router.add_get("/openapi.json", without_parameters(operations.openapi))
    app.router.add_get("/health/live", without_parameters(operations.live))
    app.router.add_get("/health/ready", without_parameters(operations.ready))
    return app


def _context(
    settings: Settings, store: Store, clock: Clock
) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(app: web.Application) -> AsyncIterator[None]:
        async with AsyncExitStack() as opened:
            opened.push_async_callback(store.close)
            identity = await store.get_identity()
            backend = await open_backend(settings, store, identity)
            opened.push_async_callback(backend.close)
            invalidating = InvalidatingStore(store, backend)
            secret = choose_secret(settings.secret, identity.cursor_secret)
            code_host = None
            if settings.host_api_url is not None:
                code_host = CodeHost.open(settings.host_api_url, secret, backend, clock)
                opened.push_async_callback(code_host.close)
            app[LIMITER] = RequestBodyLimiter()
            opened.push_async_callback(app[LIMITER].close)
            rate_limit = (
                None if settings.rate_limit is None else RateLimit(settings.rate_limit, backend)
            )
            if rate_limit is not None:
                app[RATE_LIMIT] = rate_limit
            app[RESPONSE_CACHE] = ResponseCache(backend, clock, rate_limit)
            app[ADMISSION_CONTROL] = AdmissionControl()
            if settings.cors_origins:
                app[CORS] = Cors(settings.cors_origins)
            if settings.metrics:
                metrics = Metrics(app[RESPONSE_CACHE], app[ADMISSION_CONTROL].queue, backend)
                metrics.loop_lag.start()
                opened.callback(metrics.loop_lag.stop)
                app[METRICS] = metrics
            app[CONTEXT] = Context(
                reader=invalidating,
                writer=invalidating,
                cache=Cache(backend),
                code_host=code_host,
                clock=clock,
                cursor_signer=CursorSigner(secret, identity.store_id),
                public_url=settings.public_url,
                openapi=build_document(settings.public_url, ingest=settings.ingest),
            )
            yield

    return run


def surround(app: web.Application, handler: Handler) -> Handler:
    """Put the layers around the application, from the inside out: the cheapest are asked first."""
    handler = app[ADMISSION_CONTROL].wrap(app[RESPONSE_CACHE].wrap(handler))
    for key in (RATE_LIMIT, CORS, METRICS):
        layer = app.get(key)
        if layer is not None:
            handler = layer.wrap(handler)
    return handler
