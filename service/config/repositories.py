"""The setting that names the repositories with metrics of their own."""

from __future__ import annotations

from typing import Final

from environs import Env
from marshmallow import ValidationError

from indexing.errors import InvalidValueError
from indexing.names import RepositoryName, parse_repository

# A scrape reads the quarantines of each, and each has metrics of its own.
MAX_METRICS_REPOSITORIES: Final = 20


def read_repositories(
    env: Env, name: str, default: tuple[RepositoryName, ...]
) -> tuple[RepositoryName, ...]:
    """Read names separated by commas; a wrong one is reported with all other wrong settings."""
    text = env.str(name, "", validate=_check_repositories)
    return tuple(_split_repositories(text).values()) if text else default


def _check_repositories(text: str) -> None:
    try:
        found = _split_repositories(text)
    except InvalidValueError as error:
        raise ValidationError(str(error)) from None
    if len(found) > MAX_METRICS_REPOSITORIES:
        raise ValidationError(f"must be at most {MAX_METRICS_REPOSITORIES} repositories")


def _split_repositories(text: str) -> dict[str, RepositoryName]:
    names = (parse_repository(part.strip()) for part in text.split(","))
    return {name.key: name for name in names}
