"""Types of options and arguments: they parse text into values, or raise a usage error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import click

from indexing.ci.pull_requests import parse_pull_request
from indexing.errors import InvalidValueError
from indexing.models.executions import PullRequest
from indexing.models.quarantines import MAX_OWNER_LENGTH, MAX_REASON_LENGTH
from indexing.names import (
    check_owner,
    check_repository,
    check_stored_name,
    check_text,
    parse_repository,
)
from indexing.timestamps import parse_timestamp
from service.notifications.registration import parse_secret, parse_url
from service.schemas.limits import check_stored_glob

T = TypeVar("T")

# GitHub does not send an event of more than 25 MB.
EVENT_MAX_BYTES: Final = 32 * 1024 * 1024


class _Parsed(click.ParamType[T], Generic[T]):
    """A parameter type that uses a parser of `indexing`."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> T | Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)


class _FilePath(click.Path):
    """A path that is not empty: the empty one, of an unset variable, is the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("must not be empty", param, ctx)
        return super().convert(value, param, ctx)


def _parse_moment(text: str) -> datetime:
    """Parse a timestamp, or a date, which means midnight UTC."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return parse_timestamp(text)
    except InvalidValueError as error:
        raise InvalidValueError(
            "must be a date such as 2026-01-31, or a time with a zone such as 2026-01-31T12:00:00Z"
        ) from error


def _parse_short_text(text: str, *, most: int) -> str:
    """Return a text of 1 to `most` characters."""
    check_text(text)
    if not 1 <= len(text) <= most:
        raise InvalidValueError(f"must have 1 to {most:,} characters")
    return text


def _parse_pull_request(text: str) -> tuple[int | None, PullRequest | None]:
    """Parse the number of a pull request, or read it from the CI's event file at this path."""
    if text.isascii() and text.lstrip("#").isdigit():
        return parse_pull_request(text)
    try:
        return parse_pull_request(read_event(Path(text)))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"is neither a number nor a readable file: {error}") from error


def read_event(path: Path) -> str:
    """Read a CI's event file.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read as text.
        InvalidValueError: it is larger than any event can be.
    """
    with path.open("rb") as stream:
        data = stream.read(EVENT_MAX_BYTES + 1)
    if len(data) > EVENT_MAX_BYTES:
        raise InvalidValueError(f"the CI's event file is larger than {EVENT_MAX_BYTES} bytes")
    return data.decode()


FILE_PATH = _FilePath(path_type=Path)
# A path, or `-` for standard input. Opening it reports that it cannot be read.
SOURCE = _FilePath(readable=False, path_type=str)
NEW_FILE = _FilePath(dir_okay=False, path_type=Path)
OWNER = _Parsed("owner", check_owner)
REPOSITORY = _Parsed("owner/repository", parse_repository)
REPOSITORY_ALONE = _Parsed("repository", check_repository)
STORED_NAME = _Parsed("name", check_stored_name)
TEXT = _Parsed("text", check_text)
BRANCH_GLOB = _Parsed("branch or glob", check_stored_glob)
REASON = _Parsed("text", partial(_parse_short_text, most=MAX_REASON_LENGTH))
QUARANTINE_OWNER = _Parsed("text", partial(_parse_short_text, most=MAX_OWNER_LENGTH))
MOMENT = _Parsed("date or time", _parse_moment)
WEBHOOK_URL = _Parsed("URL", parse_url)
SECRET = _Parsed("secret", parse_secret)
PULL_REQUEST = _Parsed("number or file", _parse_pull_request)

_repository_option = partial(
    click.option,
    "--repository",
    type=REPOSITORY,
    metavar="OWNER/REPOSITORY",
    help="The repository with its owner.",
)
repository_option = _repository_option(required=True)
optional_repository_option = _repository_option()
