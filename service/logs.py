"""Log lines on standard error, JSON or text, with the request id. Writes no credential."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import structlog
from aiohttp.abc import AbstractAccessLogger
from aiohttp.web import BaseRequest, StreamResponse
from structlog.typing import EventDict, Processor, WrappedLogger

from service.config.settings import LogFormat, LogLevel

# Set by the error middleware, in the context of each request.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

# Application keys, and tokens of GitHub by their prefixes. The path that is searched has no
# percent-encoded letters, which could hide a key.
_KEY: Final = re.compile("(mw_|gh[a-z]_|github_pat_)[0-9A-Za-z_]+")

# Characters that need no percent-encoding in a path, by RFC 3986, section 3.3.
_PATH_CHARACTERS: Final = "/:@!$&'()*+,;="

ACCESS_LOGGER: Final = "service.access"


def _add_request_id(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    current = request_id.get()
    if current is not None:
        event.setdefault("request_id", current)
    return event


def configure_logging(
    level: LogLevel,
    form: LogFormat,
    processors: Sequence[Processor] = (),
    filters: Sequence[logging.Filter] = (),
) -> None:
    """Send every log line of this process, also of libraries, to standard error in one format.

    The `processors` may add to a line, and the `filters` may drop it.
    """
    shared: Sequence[Processor] = (
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_request_id,
        *processors,
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(form),
            ],
        )
    )
    for each in filters:
        handler.addFilter(each)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # At debug level, asyncio logs its own internals.
    logging.getLogger("asyncio").setLevel(max(logging.INFO, root.level))


def _renderers(form: LogFormat) -> Sequence[Processor]:
    if form is LogFormat.TEXT:
        # The default prints the variables of every frame, credentials among them.
        plain = structlog.dev.plain_traceback
        return (
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),
        )
    return (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())


class AccessLog(AbstractAccessLogger):
    """A line for every answered request, at debug level only: it costs as much as an answer."""

    @property
    def enabled(self) -> bool:
        return self.logger.isEnabledFor(logging.DEBUG)

    def log(self, request: BaseRequest, response: StreamResponse, time: float) -> None:
        """Write method, path, status and milliseconds; queries and headers stay out."""
        self.logger.debug(
            "request",
            extra={
                "method": request.method,
                "path": mask_path(request.rel_url.raw_path),
                "status": response.status,
                "milliseconds": round(time * 1000, 3),
                "request_id": response.headers.get("X-Request-Id"),
            },
        )


def mask_path(path: str) -> str:
    """Mask the keys in a raw path. A key that somebody pasted into a URL is still a key."""
    # As bytes: surrogates in the path stand for bytes that are not UTF-8.
    sent = unquote_to_bytes(path.encode("utf-8", "surrogateescape"))
    plain = quote_from_bytes(sent, safe=_PATH_CHARACTERS)
    masked, keys = _KEY.subn(r"\1…", plain)
    return masked if keys else path
