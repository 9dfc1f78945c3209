"""The composition root of the HTTP API: everything is wired here, and nowhere else.

What only some settings need is imported where they are read, so that a process without them starts
sooner. A test lists what such a process does not load.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from indexing.store.interface import Store
from service.cache.invalidation import InvalidatingStore
from service.cache.opening import open_backend
from service.cache.session import Cache
from service.config.secret import choose_secret
from service.config.settings import Settings
from service.context import (
    CONTEXT,
    LIFECYCLE,
    Clock,
    Context,
    Lifecycle,
    OpenApiDocument,
    utc_now,
)
from service.handlers import events, operations, quarantine_changes, quarantines, tests
from service.handlers.respond import without_parameters
from service.http.operations import Operation
from service.ingest.limiter import LIMITER, RequestBodyLimiter
from service.middleware import layer
from service.middleware.admission_control import ADMISSION_CONTROL, AdmissionControl
from service.middleware.cors import Cors
from service.middleware.errors import handle_errors
from service.middleware.rate_limit import RATE_LIMIT, RateLimit
from service.middleware.response_cache import RESPONSE_CACHE, ResponseCache
from service.middleware.timeout import limit_time
from service.pagination.cursor import CursorSigner
from service.routes import CHANGE_ROUTES, INGEST_ROUTES, READ_ROUTES

# Each operation of `service.routes` that reads, and its handler.
_READ_HANDLERS: Final[Mapping[Operation, Handler]] = {
    Operation.EVENTS: events.list_events,
    Operation.SEARCH: tests.search_tests,
    Operation.TEST: tests.get_test,
    Operation.QUARANTINES: quarantines.list_quarantines,
    Operation.QUARANTINE: quarantines.get_quarantine,
    Operation.QUARANTINE_CHANGES: quarantine_changes.list_changes,
}
# Those that change something by hand.
_CHANGE_HANDLERS: Final[Mapping[Operation, Handler]] = {
    Operation.ADD_QUARANTINE: without_parameters(quarantine_changes.add_quarantine),
    Operation.REMOVE_QUARANTINE: without_parameters(quarantine_changes.remove_quarantine),
}


# Those that the settings turn on, from the inside out.
_LAYERS: Final = web.AppKey("layers", list[layer.Layer])


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
        app.router.add_get(route.path_pattern, _READ_HANDLERS[route.operation])
    for route in CHANGE_ROUTES:
        handler = _CHANGE_HANDLERS[route.operation]
        app.router.add_route(route.method, route.path_pattern, handler)
    if settings.ingest:
        handlers = _ingest_handlers()
        for route in INGEST_ROUTES:
            app.router.add_post(route.path_pattern, handlers[route.operation])
    if settings.metrics:
        from service.handlers.metrics import show_metrics

        app.router.add_get("/metrics", without_parameters(show_metrics))
    app.router.add_get("/openapi.json", without_parameters(operations.openapi))
    app.router.add_get("/health/live", without_parameters(operations.live))
    app.router.add_get("/health/ready", without_parameters(operations.ready))
    return app


def _ingest_handlers() -> Mapping[Operation, Handler]:
    # They load the schemas of all events, protobuf and an XML parser.
    from service.handlers import sent_events, traces

    return {
        Operation.SEND_EVENTS: without_parameters(sent_events.send_events),
        Operation.SEND_TRACES: without_parameters(traces.send_traces),
    }


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
                from service.auth.code_host.access import CodeHost

                code_host = CodeHost.open(settings.host_api_url, secret, backend, clock)
                opened.push_async_callback(code_host.close)
            app[LIMITER] = RequestBodyLimiter()
            opened.push_async_callback(app[LIMITER].close)
            layers: list[layer.Layer] = []
            rate_limit: RateLimit | None = None
            if settings.rate_limit is not None:
                from service.middleware.rate_counters import open_rate_limit

                rate_limit = open_rate_limit(settings.rate_limit, backend)
                app[RATE_LIMIT] = rate_limit
                layers.append(rate_limit)
            app[RESPONSE_CACHE] = ResponseCache(backend, clock, rate_limit)
            app[ADMISSION_CONTROL] = AdmissionControl()
            if settings.cors_origins:
                layers.append(Cors(settings.cors_origins))
            if settings.metrics:
                from service.middleware.metrics import METRICS, Metrics

                metrics = Metrics(app[RESPONSE_CACHE], app[ADMISSION_CONTROL].queue, backend)
                metrics.loop_lag.start()
                opened.callback(metrics.loop_lag.stop)
                app[METRICS] = metrics
                layers.append(metrics)
            app[_LAYERS] = layers
            app[CONTEXT] = Context(
                reader=invalidating,
                writer=invalidating,
                cache=Cache(backend),
                code_host=code_host,
                clock=clock,
                cursor_signer=CursorSigner(secret, identity.store_id),
                public_url=settings.public_url,
                openapi=OpenApiDocument(partial(_build_document, settings)),
            )
            yield

    return run


def surround(app: web.Application, handler: layer.Handler) -> layer.Handler:
    """Put the layers around the application, from the inside out: the cheapest are asked first."""
    handler = app[ADMISSION_CONTROL].wrap(app[RESPONSE_CACHE].wrap(handler))
    for around in app[_LAYERS]:
        handler = around.wrap(handler)
    return handler


def _build_document(settings: Settings) -> bytes:
    # It loads apispec and the catalogue of events; few processes are ever asked for it.
    from service.openapi import build_document

    return build_document(settings.public_url, ingest=settings.ingest)
