"""The composition root of the HTTP API: everything is wired here, and nowhere else.

Modules that only some settings need are imported where these are read, so that a process without
them starts sooner. A test lists the modules that such a process must not load.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse

from indexing.clocks import Clock, utc_now
from indexing.fairness import FairSemaphore
from indexing.store.interface import Store
from service.cache.backend import CacheBackend
from service.cache.invalidation import InvalidatingStore
from service.cache.opening import open_backend
from service.cache.reader import CachedReaders
from service.cache.session import CacheReads
from service.config.secret import choose_secret
from service.config.settings import Settings
from service.context import (
    CONTEXT,
    CREDENTIAL_CHECKS,
    LIFECYCLE,
    Context,
    Lifecycle,
    OpenApiDocument,
)
from service.handlers import (
    event_aggregate,
    event_stream,
    events,
    executions,
    failures,
    groups,
    health_reports,
    operations,
    quarantine_changes,
    quarantines,
    repositories,
    runs,
    tests,
    transitions,
    trends,
)
from service.handlers.code_owners import OWNER_SLOTS
from service.handlers.event_stream import ARRIVALS, EVENT_STREAMS
from service.handlers.parameters import without_parameters
from service.handlers.row_stream import (
    MAX_STREAMS,
    MAX_STREAMS_PER_PRINCIPAL,
    ROW_STREAMS,
    ROW_TURNS,
)
from service.http.operations import Operation
from service.http.route import Route
from service.ingest.limiter import LIMITER, RequestBodyLimiter
from service.middleware.access import authenticate, authorize, check_credential
from service.middleware.admission_control import ADMISSION_CONTROL, AdmissionControl
from service.middleware.cors import Cors
from service.middleware.errors import add_request_id, handle_errors, make_request_id
from service.middleware.layer import Handler, Layer, RouteHandler, wrap
from service.middleware.rate_limit import RATE_LIMIT, RateLimit
from service.middleware.remembered_access import (
    REMEMBERED_ACCESS,
    RememberedAccess,
    remember_access,
)
from service.middleware.response_cache import RESPONSE_CACHE, ResponseCache
from service.middleware.shielded_work import SHIELDED_WORK, ShieldedWork
from service.middleware.timeout import PAGE_SECONDS, limit_time
from service.middleware.unparsed_requests import (
    DIRECT_READS,
    REPEATED_REQUESTS,
    DirectReads,
    RepeatedRequests,
)
from service.pagination.cursor import CursorSigner
from service.routes import CHANGE_ROUTES, INGEST_ROUTES, READ_ROUTES
from service.streaming.event_ids import EventIds
from service.streaming.hub import ArrivalHub
from service.streaming.limits import StreamLimit

if TYPE_CHECKING:
    from service.tracing.tracing import Tracing

# Each operation of `service.routes` that reads, and its handler.
_READ_HANDLERS: Final[Mapping[Operation, RouteHandler]] = {
    Operation.EVENTS: events.list_events,
    Operation.EVENT_AGGREGATE: event_aggregate.aggregate_events,
    Operation.EVENT_STREAM: event_stream.stream_events,
    Operation.SEARCH: tests.search_tests,
    Operation.TEST: tests.get_test,
    Operation.QUARANTINES: quarantines.list_quarantines,
    Operation.QUARANTINE: quarantines.get_quarantine,
    Operation.TEST_STATES: quarantines.list_test_states,
    Operation.EXECUTIONS: executions.list_executions,
    Operation.FAILURES: failures.list_failures,
    Operation.FAILURE: failures.get_failure,
    Operation.RUNS: runs.list_runs,
    Operation.TEST_HEALTH: health_reports.get_health,
    Operation.STATS: trends.get_stats,
    Operation.TEST_STATS: trends.get_test_stats,
    Operation.GROUPS: groups.group_tests,
    Operation.TRANSITIONS: transitions.list_transitions,
    Operation.TEST_TRANSITIONS: transitions.list_of_test,
    Operation.QUARANTINE_CHANGES: quarantine_changes.list_changes,
    Operation.REPOSITORIES: repositories.list_repositories,
}
# The operations of `CHANGE_ROUTES`, and their handlers.
_CHANGE_HANDLERS: Final[Mapping[Operation, RouteHandler]] = {
    Operation.ADD_QUARANTINE: without_parameters(quarantine_changes.add_quarantine),
    Operation.REMOVE_QUARANTINE: without_parameters(quarantine_changes.remove_quarantine),
}


_LAYERS: Final = web.AppKey("layers", Sequence[Layer])


def create_app(
    settings: Settings,
    store: Store,
    *,
    clock: Clock = utc_now,
    metrics_folder: Path | None = None,
    session_folder: Path | None = None,
    tracing: Tracing | None = None,
) -> web.Application:
    """Make the application over a store, which it closes at its own clean-up.

    Processes that share a `metrics_folder` show the metrics of all of them; those that share a
    `session_folder` know the same sessions of tokens. Whatever `tracing` traces is wrapped here,
    once, so that no other module has to check whether traces are on.
    """
    app = web.Application()
    app[LIFECYCLE] = Lifecycle()
    app[LIMITER] = RequestBodyLimiter()
    app[SHIELDED_WORK] = ShieldedWork()
    app[ADMISSION_CONTROL] = AdmissionControl()
    app[OWNER_SLOTS] = FairSemaphore(1)
    app[ROW_STREAMS] = StreamLimit(MAX_STREAMS_PER_PRINCIPAL, MAX_STREAMS)
    app[ROW_TURNS] = FairSemaphore(1)
    app[EVENT_STREAMS] = StreamLimit(
        event_stream.MAX_STREAMS_PER_PRINCIPAL, event_stream.MAX_STREAMS
    )
    app[CREDENTIAL_CHECKS] = {route.operation: check_credential(route) for route in READ_ROUTES}
    app.cleanup_ctx.append(
        partial(
            _context,
            settings=settings,
            store=store,
            clock=clock,
            metrics_folder=metrics_folder,
            session_folder=session_folder,
            tracing=tracing,
        )
    )
    for route in READ_ROUTES:
        # This route serves HEAD as well.
        app.router.add_get(route.path_pattern, _guard_read(route, _READ_HANDLERS[route.operation]))
    for route in CHANGE_ROUTES:
        handler = _guard(route, _CHANGE_HANDLERS[route.operation])
        app.router.add_route(route.method, route.path_pattern, handler)
    if settings.ingest:
        handlers = _ingest_handlers()
        for route in INGEST_ROUTES:
            app.router.add_post(route.path_pattern, _guard(route, handlers[route.operation]))
    if settings.metrics:
        from service.handlers.metrics import show_metrics

        app.router.add_get("/metrics", without_parameters(show_metrics))
    if settings.ui:
        from service.ui.routes import add_pages

        add_pages(app.router)
    app.router.add_get("/openapi.json", without_parameters(operations.openapi))
    app.router.add_get("/health/live", without_parameters(operations.live))
    app.router.add_get("/health/ready", without_parameters(operations.ready))
    return app


def _ingest_handlers() -> Mapping[Operation, RouteHandler]:
    # Imported here, as they load the schemas of all events, protobuf and an XML parser.
    from service.handlers import sent_events, traces

    return {
        Operation.SEND_EVENTS: without_parameters(sent_events.send_events),
        Operation.SEND_TRACES: without_parameters(traces.send_traces),
    }


async def _context(
    app: web.Application,
    *,
    settings: Settings,
    store: Store,
    clock: Clock,
    metrics_folder: Path | None,
    session_folder: Path | None,
    tracing: Tracing | None,
) -> AsyncIterator[None]:
    """Open what the requests need, and close it at the application's clean-up."""
    async with AsyncExitStack() as opened:
        opened.push_async_callback(store.close)
        identity = await store.get_identity()
        backend = await open_backend(settings, store, identity)
        opened.push_async_callback(backend.close)
        if tracing is not None:
            backend = tracing.trace_backend(backend)
        secret = choose_secret(settings.secret, identity.cursor_secret)
        code_host = None
        if settings.host_api_url is not None:
            from service.auth.code_host.access import CodeHost

            code_host = CodeHost.open(settings.host_api_url, secret, backend, clock)
            opened.push_async_callback(code_host.close)
        opened.push_async_callback(app[LIMITER].close)
        # Before the limiter, whose workers it may need.
        opened.push_async_callback(app[SHIELDED_WORK].close)
        rate_limit = _open_rate_limit(settings, backend)
        if rate_limit is not None:
            app[RATE_LIMIT] = rate_limit
        app[RESPONSE_CACHE] = ResponseCache(backend, clock, rate_limit)
        app[REMEMBERED_ACCESS] = RememberedAccess(backend, clock, rate_limit)
        app[DIRECT_READS] = DirectReads(app[REMEMBERED_ACCESS], app[RESPONSE_CACHE])
        measured, cache_reads, count = store, CacheReads(), None
        queue = app[ADMISSION_CONTROL].queue
        if settings.metrics:
            from service.middleware.metrics import METRICS, Metrics

            app[METRICS] = Metrics(app[RESPONSE_CACHE], queue, backend, cache_reads, metrics_folder)
            measured = app[METRICS].measure(store, settings.metrics_repositories, clock)
            app[METRICS].start()
            opened.push_async_callback(app[METRICS].stop)
            count = app[METRICS].count
        repeated = RepeatedRequests(app[RESPONSE_CACHE], queue, make_request_id, count)
        app[REPEATED_REQUESTS] = repeated if tracing is None else tracing.trace_repeated(repeated)
        ids = EventIds(secret, identity.store_id)
        app[ARRIVALS] = ArrivalHub(measured, ids, lambda: app[LIFECYCLE].stopping)
        opened.push_async_callback(app[ARRIVALS].close)
        if settings.ui:
            await _open_dashboard(app, settings, secret, backend, clock, session_folder)
        app[_LAYERS] = tuple(_list_layers(app, settings, tracing))
        if tracing is not None:
            system = "elasticsearch" if settings.elasticsearch_url else "sqlite"
            # The calls of the parts above belong to no request, and are not traced.
            measured = tracing.trace_store(measured, system)
        app[CONTEXT] = Context(
            reader=measured,
            writer=InvalidatingStore(measured, backend),
            readers=CachedReaders(measured, backend, cache_reads),
            code_host=code_host,
            clock=clock,
            cursor_signer=CursorSigner(secret, identity.store_id),
            public_url=settings.public_url,
            openapi=OpenApiDocument(partial(_build_document, settings)),
        )
        yield


async def _open_dashboard(
    app: web.Application,
    settings: Settings,
    secret: bytes,
    backend: CacheBackend,
    clock: Clock,
    session_folder: Path | None,
) -> None:
    from service.ui.api import Handlers
    from service.ui.dashboard import DASHBOARD, Dashboard
    from service.ui.links import SignInLinks
    from service.ui.session_places import open_token_sessions

    app[DASHBOARD] = Dashboard(
        secret=secret,
        clock=clock,
        links=SignInLinks(secret, backend, clock),
        handlers=Handlers(
            _READ_HANDLERS,
            {
                Operation.ADD_QUARANTINE: quarantine_changes.add_decoded_quarantine,
                Operation.REMOVE_QUARANTINE: lambda request, _: (
                    quarantine_changes.remove_quarantine(request)
                ),
            },
        ),
        public_url=settings.public_url,
        token_sessions=await open_token_sessions(settings, backend, session_folder, clock),
        page_seconds=PAGE_SECONDS if settings.elasticsearch_url else None,
    )


def _open_rate_limit(settings: Settings, backend: CacheBackend) -> RateLimit | None:
    if settings.rate_limit is None:
        return None
    from service.middleware.rate_counters import open_rate_limit

    return open_rate_limit(settings.rate_limit, backend)


def _list_layers(
    app: web.Application, settings: Settings, tracing: Tracing | None
) -> Iterator[Layer]:
    """Yield the layers around the router, outermost first; `_guard` adds those inside of it.

    docs/decisions/order-of-layers.md has the reasons for the order.
    """
    if tracing is not None:
        yield tracing.requests.wrap
    yield add_request_id
    if settings.metrics:
        from service.middleware.metrics import METRICS

        yield app[METRICS].wrap
    if settings.cors_origins:
        yield Cors(settings.cors_origins).wrap
    if settings.rate_limit is not None:
        yield app[RATE_LIMIT].wrap
    yield app[ADMISSION_CONTROL].wrap
    yield app[RESPONSE_CACHE].wrap
    yield handle_errors(partial(_run_shielded, app), ingest=settings.ingest)
    if settings.elasticsearch_url:
        yield limit_time
    if tracing is not None:
        from service.tracing.request_spans import note_route

        yield note_route
    yield partial(app[REMEMBERED_ACCESS].wrap, app)


async def _run_shielded(
    app: web.Application, request: BaseRequest, work: Coroutine[Any, Any, StreamResponse]
) -> StreamResponse:
    """Finish the work on a request, within its slot, even if its client leaves."""
    return await app[SHIELDED_WORK].run(app[ADMISSION_CONTROL].keep_slot(request, work))


def _guard_read(route: Route, handler: RouteHandler) -> RouteHandler:
    """Do as `_guard` does, and remember the access of those who may read."""
    return _guard(route, remember_access(route)(handler))


def _guard(route: Route, handler: RouteHandler) -> RouteHandler:
    """Return the handler of a route within the layers that depend on the route."""
    return wrap(handler, (authenticate(route), authorize(route)))


def surround(app: web.Application, router: Handler) -> Handler:
    """Return the application's router with all layers around it."""
    return wrap(router, app[_LAYERS])


def _build_document(settings: Settings) -> bytes:
    # Imported here, as it loads apispec and the catalogue of events; few processes ever need it.
    from service.openapi import build_document

    return build_document(settings.public_url, ingest=settings.ingest)
