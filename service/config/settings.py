"""The settings of the operator, read from the environment. No other module reads them there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from environs import Env, EnvValidationError
from marshmallow import ValidationError
from marshmallow.fields import Boolean
from marshmallow.validate import OneOf, Range, Regexp

from indexing.errors import MergewatchError
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace
from service.config.prefix import PREFIX
from service.config.reach import Reach, read_reach
from service.config.repositories import MAX_METRICS_REPOSITORIES, read_repositories
from service.config.urls import (
    check_host_api_url,
    check_node_urls,
    check_origins,
    check_public_url,
    check_redis_url,
    check_service_url,
)

# More processes than this on one machine are taken for a typing error.
MAX_WORKERS: Final = 64
MAX_PORT: Final = 65_535
# A century. To keep data for longer, do not prune.
MAX_RETENTION_DAYS: Final = 36_500

# What Elasticsearch accepts at the start of an index name.
_INDEX_PREFIX: Final = re.compile(r"[a-z0-9][a-z0-9_.\-]{0,99}")

_TIME_OF_DAY: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]\Z"

_RATE_LIMIT: Final = r"[1-9][0-9]{0,8}/(?:second|minute|hour|day)\Z"


class SettingsError(MergewatchError):
    """Some settings are wrong; the text names every one of them and shows no value."""


class LogLevel(StrEnum):
    """The least severe line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line looks: for a machine or for a person."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `public_url` has no trailing slash; `port` 0 is any free port."""

    data_dir: Path = Path("data")
    elasticsearch_url: tuple[str, ...] = field(default=(), repr=False)
    elasticsearch_api_key: str | None = field(default=None, repr=False)
    elasticsearch_prefix: str = "mergewatch"
    redis_url: str | None = field(default=None, repr=False)
    public_url: str | None = None
    bind: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    secret: str | None = field(default=None, repr=False)
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.JSON
    retention_days: int = 90
    rollup_days: int = 730
    prune_at: time | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    ingest: bool = False
    host_api_url: str | None = None
    rate_limit: str | None = None
    cors_origins: tuple[str, ...] = ()
    ui: bool = True
    metrics: bool = False
    metrics_repositories: tuple[RepositoryName, ...] = ()
    notifications: Reach | None = None

    @property
    def store(self) -> Path | ElasticsearchPlace:
        """Where the store is."""
        if not self.elasticsearch_url:
            return self.data_dir
        return ElasticsearchPlace(
            self.elasticsearch_url, self.elasticsearch_prefix, self.elasticsearch_api_key
        )


@dataclass(frozen=True, slots=True)
class Declaration:
    """One setting: its field in `Settings`, its default as documented, and how it is read."""

    field: str
    default: str
    description: str
    read: Callable[[Env, str, Any], Any]

    @property
    def variable(self) -> str:
        """The environment variable's whole name."""
        return PREFIX + self.field.upper()


def _text(env: Env, name: str, default: str | None) -> str | None:
    return env.str(name, default)


def _token(env: Env, name: str, default: str | None) -> str | None:
    text = env.str(name, default, validate=_check_token)
    # A secret that was read from a file may end with a line break.
    return (text or "").strip() or None


def _check_token(text: str) -> None:
    if not (text.strip().isascii() and text.strip().isprintable()):
        raise ValidationError("must be printable ASCII, because a header carries it")


def _path(env: Env, name: str, default: Path) -> Path:
    return Path(env.str(name, str(default)))


def _url(check: Callable[[str], None]) -> Callable[[Env, str, str | None], str | None]:
    """Return the reader of a URL, to which paths are appended."""

    def read(env: Env, name: str, default: str | None) -> str | None:
        text = env.str(name, default, validate=check)
        return text.rstrip("/") if text else default

    return read


def _node_urls(env: Env, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    text = env.str(name, "", validate=check_node_urls)
    return tuple(url.strip().rstrip("/") for url in text.split(",")) if text else default


def _index_prefix(env: Env, name: str, default: str) -> str:
    return env.str(name, default, validate=_check_index_prefix) or default


def _check_index_prefix(text: str) -> None:
    if not _INDEX_PREFIX.fullmatch(text):
        raise ValidationError(
            "must be 1 to 100 characters of a-z, 0-9, '_', '.' and '-', the first a letter or digit"
        )


def _rate_limit(env: Env, name: str, default: str | None) -> str | None:
    error = "must be a number of requests per unit of time, such as 600/minute"
    return env.str(name, default, validate=Regexp(_RATE_LIMIT, error=error))


def _time_of_day(env: Env, name: str, default: time | None) -> time | None:
    error = "must be a time of day in UTC, such as 03:17"
    text = env.str(name, None, validate=Regexp(_TIME_OF_DAY, error=error))
    return time.fromisoformat(text) if text else default


def _origins(env: Env, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    origins = [text.strip() for text in env.str(name, ",".join(default)).split(",")]
    env.str(name, "", validate=lambda _: check_origins(origins))
    return tuple(origins)


def _redis_url(env: Env, name: str, default: str | None) -> str | None:
    return env.str(name, default, validate=check_redis_url)


def _number(low: int, high: int) -> Callable[[Env, str, int], int]:
    def read(env: Env, name: str, default: int) -> int:
        return env.int(name, default, validate=Range(low, high))

    return read


def _port(env: Env, name: str, default: int) -> int:
    # Kubernetes sets this variable, to a URL, if it has a service named mergewatch.
    if env.str(name, "").startswith("tcp://"):
        return default
    return _number(0, MAX_PORT)(env, name, default)


def _switch(env: Env, name: str, default: bool) -> bool:  # noqa: FBT001 - the shape of a reader
    def check(text: str) -> None:
        if text and text not in Boolean.truthy | Boolean.falsy:
            raise ValidationError("Must be true or false.")

    text = env.str(name, "", validate=check)
    return text in Boolean.truthy if text else default


def _choice(choices: type[LogLevel | LogFormat]) -> Callable[[Env, str, Any], Any]:
    allowed = [choice.value for choice in choices]

    def read(env: Env, name: str, default: StrEnum) -> StrEnum | None:
        def check(text: str) -> None:
            OneOf(allowed)(text.lower())

        # `None` for a wrong value, as all errors are reported together.
        text = (env.str(name, default.value, validate=check) or "").lower()
        return choices(text) if text in allowed else None

    return read


DECLARATIONS: Final = (
    Declaration("data_dir", "./data", "The folder of the embedded store.", _path),
    Declaration(
        "elasticsearch_url",
        "unset",
        "URLs of Elasticsearch nodes, separated by commas. Unset: the embedded store is used.",
        _node_urls,
    ),
    Declaration(
        "elasticsearch_api_key",
        "unset",
        "The API key for the cluster, encoded as Elasticsearch shows it.",
        _token,
    ),
    Declaration(
        "elasticsearch_prefix",
        "mergewatch",
        "The prefix of all index names, so that several installations can share a cluster.",
        _index_prefix,
    ),
    Declaration(
        "redis_url",
        "unset",
        "The Redis in which processes share cached answers: `redis://:password@host:6379/0`, "
        "`rediss://…` or `unix:///path`. Unset: each process has its own cache.",
        _redis_url,
    ),
    Declaration(
        "public_url",
        "unset",
        "The URL at which clients reach the service, with a path prefix if there is one. Links "
        "are built from it. Unset: from the `Host` header of the request.",
        _url(check_public_url),
    ),
    Declaration("bind", "127.0.0.1", "The address to listen on.", _text),
    Declaration("port", "8080", "The port to listen on; 0 takes any free port.", _port),
    Declaration(
        "workers", "1", "The number of serving processes, 1 to 64.", _number(1, MAX_WORKERS)
    ),
    Declaration(
        "secret",
        "unset",
        "The secret that signs cursors, any text. Unset: the store generates one. Set it if "
        "several stores serve one public URL.",
        _text,
    ),
    Declaration(
        "log_level",
        "info",
        "`debug`, `info`, `warning` or `error`; `debug` logs every request.",
        _choice(LogLevel),
    ),
    Declaration("log_format", "json", "`json` or `text`.", _choice(LogFormat)),
    Declaration(
        "retention_days",
        "90",
        "The days of events and executions that `mergewatch index prune` keeps, 1 to 36,500.",
        _number(1, MAX_RETENTION_DAYS),
    ),
    Declaration(
        "rollup_days",
        "730",
        "The days of the daily figures of tests that `mergewatch index prune` keeps, 1 to 36,500. "
        "They outlive executions; with less than `MERGEWATCH_RETENTION_DAYS`, both are kept for "
        "the same time.",
        _number(1, MAX_RETENTION_DAYS),
    ),
    Declaration(
        "prune_at",
        "unset",
        "The time of day in UTC, such as `03:17`, at which one worker of all replicas prunes what "
        "is older. Unset: never.",
        _time_of_day,
    ),
    Declaration(
        "url",
        "unset",
        "The service that `mergewatch ingest junit` and `ci junit` upload to and that `events`, "
        "`tests` and `repository health` read from, with its path prefix if there is one. Unset: "
        "reports are written into the store.",
        _url(check_service_url),
    ),
    Declaration(
        "token",
        "unset",
        "The key for that service: of scope `ingest` to upload, of scope `read` to read. One of "
        "the two without the other is an error.",
        _token,
    ),
    Declaration(
        "ingest",
        "false",
        "Accept test results and events over HTTP: `true` or `false`.",
        _switch,
    ),
    Declaration(
        "host_api_url",
        "unset",
        "The API of the code host, such as `https://api.github.com`. Its tokens can then read "
        "here, and on the dashboard, what they can read there. Unset: only application keys are "
        "valid.",
        _url(check_host_api_url),
    ),
    Declaration(
        "rate_limit",
        "unset",
        "The requests that each credential may make, such as `600/minute` (or `second`, `hour`, "
        "`day`). With `MERGEWATCH_REDIS_URL` all processes count together. Unset: no limit.",
        _rate_limit,
    ),
    Declaration(
        "cors_origins",
        "unset",
        "The origins whose pages may call the API from a browser, such as `https://ci.example`, "
        "separated by commas; `*` allows all. Unset: none.",
        _origins,
    ),
    Declaration(
        "ui",
        "true",
        "Serve the dashboard at `/ui/`: `true` or `false`.",
        _switch,
    ),
    Declaration(
        "metrics",
        "false",
        "Serve Prometheus metrics at `GET /metrics`, without a credential: `true` or `false`.",
        _switch,
    ),
    Declaration(
        "metrics_repositories",
        "unset",
        f"Up to {MAX_METRICS_REPOSITORIES} repositories, such as `acme/widgets`, separated by "
        "commas, that have metrics of their own. Everybody who can read the metrics reads their "
        "names. Unset: none.",
        read_repositories,
    ),
    Declaration(
        "notifications",
        "unset",
        "Send notifications to webhooks: `public`, to public addresses only, or `any`, to private "
        "networks too. Unset: none are sent.",
        read_reach,
    ),
)


def load_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        SettingsError: some settings are wrong; the error names all of them.
    """
    env = Env(eager=False, prefix=PREFIX)
    defaults = Settings()
    values = {
        declared.field: declared.read(
            env, declared.field.upper(), getattr(defaults, declared.field)
        )
        for declared in DECLARATIONS
        # Compose files pass an unset variable on as an empty one.
        if os.environ.get(declared.variable)
    }
    try:
        env.seal()
    except EnvValidationError as error:
        if not isinstance(error.error_messages, Mapping):
            raise
        lines = (
            f"{name}: {' '.join(messages)}"
            for name, messages in sorted(error.error_messages.items())
        )
        # The cause repeats the values, one of which may be the secret.
        raise SettingsError("invalid settings\n  " + "\n  ".join(lines)) from None
    return Settings(**values)
