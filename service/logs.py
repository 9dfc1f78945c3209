"""Log lines on standard error, JSON or text, with the request id. Writes no credential.

Modules log by `logging`, with the further fields of a line in `extra`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from urllib.parse import quote_from_bytes, unquote_to_bytes

from aiohttp.abc import AbstractAccessLogger
from aiohttp.web import BaseRequest, StreamResponse

from service.config.settings import LogFormat, LogLevel
from service.http.response_headers import REQUEST_ID_HEADER

# Set by the error middleware, in the context of each request.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

# Application keys, and tokens of GitHub by their prefixes. The path that is searched has no
# percent-encoded letters, which could hide a key.
_KEY: Final = re.compile("(mw_|gh[a-z]_|github_pat_)[0-9A-Za-z_]+")

# Characters that need no percent-encoding in a path, by RFC 3986, section 3.3.
_PATH_CHARACTERS: Final = "/:@!$&'()*+,;="

ACCESS_LOGGER: Final = "service.access"

# The fields of a line, in their order.
Line: TypeAlias = dict[str, Any]

# What `logging` sets on every record; all else is from `extra`. Python 3.12 added `taskName`.
OF_EVERY_RECORD: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def configure_logging(
    level: LogLevel,
    form: LogFormat,
    additions: Sequence[Callable[[Line], None]] = (),
    filters: Sequence[logging.Filter] = (),
) -> None:
    """Send every log line of this process, also of libraries, to standard error in one format.

    The `additions` may add fields to a line, and the `filters` may drop it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(_choose_rendering(form), additions))
    for each in filters:
        handler.addFilter(each)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # At debug level, asyncio logs its own internals.
    logging.getLogger("asyncio").setLevel(max(logging.INFO, root.level))


class LineFormatter(logging.Formatter):
    """Formats records as lines of the same fields; a traceback shows no variables."""

    def __init__(
        self, render: Callable[[Line], str], additions: Sequence[Callable[[Line], None]]
    ) -> None:
        super().__init__()
        self._render = render
        self._additions = additions

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: Line = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        for name, value in vars(record).items():
            if name not in OF_EVERY_RECORD:
                line[name] = value
        moment = datetime.fromtimestamp(record.created, UTC)
        line["timestamp"] = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
        if (current := request_id.get()) is not None:
            line.setdefault("request_id", current)
        for add in self._additions:
            add(line)
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        return self._render(line)


def _choose_rendering(form: LogFormat) -> Callable[[Line], str]:
    if form is LogFormat.JSON:
        # orjson would refuse the lone surrogates of a path that is not UTF-8.
        return lambda line: json.dumps(line, default=repr)
    # Imported here, as it loads rich.
    from structlog.dev import ConsoleRenderer, plain_traceback

    # By default, it would print the variables of every frame, credentials among them.
    # https://no-color.org
    is_coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    renderer = ConsoleRenderer(colors=is_coloured, exception_formatter=plain_traceback)
    return lambda line: str(renderer(None, line["level"], line))


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
                "request_id": response.headers.get(REQUEST_ID_HEADER),
            },
        )


def mask_path(path: str) -> str:
    """Mask the keys in a raw path. A key that somebody pasted into a URL is still a key."""
    # As bytes: surrogates in the path stand for bytes that are not UTF-8.
    sent = unquote_to_bytes(path.encode("utf-8", "surrogateescape"))
    plain = quote_from_bytes(sent, safe=_PATH_CHARACTERS)
    masked, keys = _KEY.subn(r"\1…", plain)
    return masked if keys else path
