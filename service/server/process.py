"""One process that serves requests: its event loop, its listening socket, its shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import select
import socket
import sys
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvloop
from aiohttp import web

from indexing.errors import MergewatchError
from indexing.store import name_backend, open_store
from indexing.store.interface import Store
from service.app import create_app, surround
from service.config.settings import Settings
from service.config.traces import wants_traces
from service.http.targets import MAX_PARSED_BYTES, UI_PREFIX
from service.http.unparsed import DirectReads, RepeatedRequests
from service.ingest.limiter import LIMITER
from service.logs import ACCESS_LOGGER, AccessLog, configure_logging
from service.middleware.unparsed_requests import DIRECT_READS, REPEATED_REQUESTS
from service.server.event_counting import EventCounting
from service.server.listener import BACKLOG, Listener, http_url
from service.server.shared_folder import shared_folder
from service.server.supervisor import stop_signals, supervise

if TYPE_CHECKING:
    from service.tracing.tracing import Tracing

# The longest header in use is `Authorization` with an application key or a token of the code host.
MAX_HEADER_SIZE: Final = 8_190
# Longer than the 60 seconds after which common load balancers close their side, so that a
# connection is never closed just as they send a request. Idle connections cost memory.
KEEPALIVE_SECONDS: Final = 75.0
# How long connections stay open after the process is told to stop. The next response on each is
# marked as the last, so a client that sends requests at least this often is not cut off.
DRAIN_SECONDS: Final = 2.0
# How long the background tasks may take to end, while connections stay open and after that.
TASKS_SECONDS: Final = 2.8
# How long requests in progress may take after that. In all, and with `FINISH_SECONDS` of
# `service.middleware.shielded_work`, this is less than the ten seconds that orchestrators give.
SHUTDOWN_SECONDS: Final = 6.0

# How long after the start the pages of the dashboard are loaded, unless one is requested earlier.
PAGES_AFTER_SECONDS: Final = 1.0

# The cycle collector runs once this many more objects were created than freed.
COLLECTED_AFTER: Final = 20_000
# How long one thread may keep the others waiting; Python's default is five times as long.
SWITCH_SECONDS: Final = 0.001

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Worker:
    """One process that serves, alone or as one of several.

    Of several, `parent` is a file descriptor that becomes readable when the supervisor ends, and no
    other running worker has the same `number`. All workers keep their metrics in one folder, if
    they keep any; likewise their sessions.
    """

    parent: int | None = None
    number: int = 0
    metrics_folder: Path | None = None
    session_folder: Path | None = None


class ServeError(MergewatchError):
    """The service cannot start; the text is one line for the operator."""


def serve(settings: Settings) -> None:
    """Serve requests until SIGTERM, SIGINT or SIGHUP, then finish those in progress and return.

    Raises:
        ServeError: the address cannot be listened on, or the package for traces is not installed.
        TracesError: traces cannot be exported as configured.
        NoFolderError: the workers have no place for their metrics or sessions.
        WorkersDieError: the workers keep dying.
        StoreError: the store cannot be opened.
    """
    _tune_interpreter()
    _raise_descriptor_limit()
    if wants_traces(os.environ):
        _configure_traced_logging(settings)
    else:
        configure_logging(settings.log_level, settings.log_format)
    with bind(settings.bind, settings.port) as sock:
        if settings.workers == 1:
            _run(settings, sock, Worker())
        else:
            _run_workers(settings, sock)


def _configure_traced_logging(settings: Settings) -> None:
    """Configure log lines with the ids of their spans, which needs OpenTelemetry."""
    try:
        from service.tracing.log_lines import FewLines, add_span
        from service.tracing.opening import check_exporters
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise ServeError(
            "the OTEL_* variables turn traces on, which need the extra `otel`: run"
            " `pip install '.[otel]'` in the source tree; OTEL_SDK_DISABLED=true turns them off"
        ) from error
    configure_logging(settings.log_level, settings.log_format, [add_span], [FewLines()])
    check_exporters()


def _open_tracing() -> Tracing | None:
    if not wants_traces(os.environ):
        return None
    from service.tracing.opening import open_tracing

    return open_tracing()


def _run_workers(settings: Settings, sock: socket.socket) -> None:
    with ExitStack() as entered:
        folder: Path | None = None
        if settings.metrics:
            from service.server.shared_metrics import make_files

            folder = entered.enter_context(shared_folder("metrics"))
            make_files(folder, settings.workers)
        sessions = _choose_session_folder(settings, entered)

        def run(lifeline: int, number: int) -> None:
            _run(settings, sock, Worker(lifeline, number, folder, sessions))

        def on_death(number: int) -> None:
            if folder is not None:
                from service.server.shared_metrics import drop_gauges

                drop_gauges(folder, number)

        # The workers keep their copies of the socket, and accept all connections.
        supervise(settings.workers, run, sock.close, on_death)


def _choose_session_folder(settings: Settings, entered: ExitStack) -> Path | None:
    if not settings.ui or settings.host_api_url is None:
        return None
    from service.ui.session_places import needs_folder

    return entered.enter_context(shared_folder("sessions")) if needs_folder(settings) else None


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on that address.

    Raises:
        ServeError: the address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except UnicodeError as error:
        raise ServeError(f"cannot listen on {host} port {port}: no host has that name") from error
    except OSError as error:
        raise ServeError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ServeError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    sock.settimeout(0)
    return sock


async def start(app: web.Application, sock: socket.socket) -> web.AppRunner:
    """Serve on a bound socket until the runner is cleaned up."""
    # A request whose client has gone is cancelled.
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS, handler_cancellation=True)
    try:
        await runner.setup()
        if runner.server is None:
            raise RuntimeError("the runner was not set up")
        runner.server.request_handler = surround(app, runner.server.request_handler)
        listener = Listener(
            runner,
            sock,
            {
                "access_log": logging.getLogger(ACCESS_LOGGER),
                "access_log_class": AccessLog,
                "keepalive_timeout": KEEPALIVE_SECONDS,
                "max_field_size": MAX_HEADER_SIZE,
                "max_line_size": MAX_PARSED_BYTES,
                # Bodies are unpacked in `service.ingest`, within limits.
                "auto_decompress": False,
            },
            *_find_fast_paths(app),
        )
        await listener.start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner


def _find_fast_paths(
    app: web.Application,
) -> tuple[RepeatedRequests | None, DirectReads[Any] | None]:
    """Return the fast paths, which answer requests without parsing them, if they are used."""
    # The access log has a line for every request, but only parsed requests are logged.
    if logging.getLogger(ACCESS_LOGGER).isEnabledFor(logging.DEBUG):
        return None, None
    return app[REPEATED_REQUESTS], app[DIRECT_READS]


def _run(settings: Settings, sock: socket.socket, worker: Worker) -> None:
    if worker.metrics_folder is not None:
        from service.server.shared_metrics import join

        join(worker.metrics_folder, worker.number)
    uvloop.run(_serve_until_stopped(settings, sock, worker))


def _tune_interpreter() -> None:
    """Switch threads sooner, and run the cycle collector less often.

    A read in a thread takes the interpreter's lock a few times, and a busy event loop keeps it for
    a whole interval each time. The cache holds many small objects, none of them in a cycle: to
    scan all of them takes tens of milliseconds, in which no request is served. Objects that exist
    now, such as imported modules, are never scanned again.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 10, 10)
    gc.enable()


def _raise_descriptor_limit() -> None:
    """Open as many files as the system lets this process have: each connection is one.

    The limit at first is often 1,024, for the sake of programs that use `select`. One credential
    could use that up with streams, and idle connections without any credential.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems state a limit that they do not accept.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _is_readable(descriptor: int) -> bool:
    """Whether the descriptor has data, or has no writer any more."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _start_tasks(settings: Settings, store: Store) -> set[asyncio.Task[None]]:
    """Start the background tasks of this process, which run until they are cancelled."""
    tasks = set[asyncio.Task[None]]()
    if settings.prune_at is not None:
        from service.server.daily_prune import DailyPrune

        tasks.add(asyncio.create_task(DailyPrune(store, settings.prune_at).run()))
    if settings.notifications is not None:
        from service.notifications.sender import send_notifications

        is_linked = settings.ui and settings.public_url is not None
        dashboard_url = f"{settings.public_url}{UI_PREFIX}" if is_linked else None
        sending = send_notifications(store, settings.notifications, dashboard_url)
        tasks.add(asyncio.create_task(sending))
    tasks.add(asyncio.create_task(EventCounting(store).run()))
    if settings.ui:
        tasks.add(asyncio.create_task(_load_pages()))
    for task in tasks:
        task.add_done_callback(_log_failure)
    return tasks


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log the error that ended a background task: nobody waits for its result."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("background task failed", exc_info=error, extra={"task": _name_of(task)})


def _name_of(task: asyncio.Task[None]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


async def _end_tasks(tasks: Collection[asyncio.Task[None]], seconds: float) -> None:
    """Wait for the end of cancelled tasks, which may hang on the store; log those that still run.

    They are cancelled again, which ends their clean-up too.
    """
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        _log.warning("background task did not end in time", extra={"task": _name_of(task)})
        task.cancel()


async def _load_pages() -> None:
    """Load the dashboard, once the requests that waited for the start are answered."""
    from service.ui.routes import load_pages

    await asyncio.sleep(PAGES_AFTER_SECONDS)
    # In a thread, because it takes tens of milliseconds.
    await asyncio.to_thread(load_pages)


async def _serve_until_stopped(settings: Settings, sock: socket.socket, worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    parent = worker.parent
    stop = asyncio.Event()
    tracing = _open_tracing()
    # An upgrade of the store may take long, and may be interrupted: SIGTERM still ends the process.
    store = await open_store(settings.store)
    for number in stop_signals():
        loop.add_signal_handler(number, stop.set)
    if parent is not None:
        loop.add_reader(parent, stop.set)
    app = create_app(
        settings,
        store,
        metrics_folder=worker.metrics_folder,
        session_folder=worker.session_folder,
        tracing=tracing,
    )
    runner = await start(app, sock)
    if settings.ingest:
        await app[LIMITER].start()
    tasks = _start_tasks(settings, store)
    # The objects of the application stay, too: exclude them from collection.
    gc.freeze()
    about = {"address": http_url(sock), "pid": os.getpid(), "store": name_backend(settings.store)}
    _log.info("listening", extra=about)
    try:
        await stop.wait()
    finally:
        ended_by = loop.time() + TASKS_SECONDS
        for task in tasks:
            task.cancel()
        if parent is not None:
            loop.remove_reader(parent)
        for listener in runner.sites:
            if isinstance(listener, Listener):
                # If the supervisor is still running, other workers still use the socket.
                await listener.drain(DRAIN_SECONDS, lambda: parent is None or _is_readable(parent))
        await _end_tasks(tasks, max(0.0, ended_by - loop.time()))
        # This closes the store.
        await runner.cleanup()
        if tracing is not None:
            await tracing.close()
    _log.info("stopped", extra={"pid": os.getpid()})
