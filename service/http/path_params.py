"""The parameters in a path, checked by hand because the checks are part of every request."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from indexing.errors import InvalidValueError
from indexing.identifiers import UUID_PATTERN, read_uuid
from indexing.models.trends import Stat, TestStat
from indexing.names import (
    OWNER_MAX_LENGTH,
    OWNER_PATTERN,
    REPOSITORY_PATTERN,
    check_owner,
    check_repository,
)

# Test ids are UUIDs made from a name with SHA-1: version 5 (RFC 9562, section 5.5).
_VERSION_5: Final = 5
TEST_ID_PATTERN: Final = (
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-5[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
)


@dataclass(frozen=True, slots=True, eq=False)
class PathParameter:
    """A parameter. `check` raises `InvalidValueError`; `schema` is the same rule in JSON Schema."""

    name: str
    check: Callable[[str], object]
    schema: Mapping[str, Any]


def read_test_id(text: str) -> uuid.UUID:
    """Read a version 5 UUID."""
    test_id = read_uuid(text)
    if test_id.version != _VERSION_5:
        raise InvalidValueError("must be a version 5 UUID")
    return test_id


def read_stat(text: str) -> Stat:
    """Read the name of a series."""
    try:
        return Stat(text)
    except ValueError as error:
        raise InvalidValueError(f"must be one of {', '.join(Stat)}") from error


def read_test_stat(text: str) -> TestStat:
    """Read the name of a series of one test."""
    try:
        return TestStat(text)
    except ValueError as error:
        raise InvalidValueError(f"must be one of {', '.join(TestStat)}") from error


_OWNER_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": OWNER_MAX_LENGTH,
    "pattern": f"^{OWNER_PATTERN}$",
}
_REPOSITORY_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "pattern": f"^{REPOSITORY_PATTERN}$",
}

OWNER: Final = PathParameter("owner", check_owner, _OWNER_SCHEMA)
REPOSITORY: Final = PathParameter("repository", check_repository, _REPOSITORY_SCHEMA)
REPOSITORY_NAME: Final = PathParameter("repository_name", check_repository, _REPOSITORY_SCHEMA)
STAT: Final = PathParameter(
    "stat",
    read_stat,
    {"type": "string", "enum": [stat.value for stat in Stat]},
)
TEST_STAT: Final = PathParameter(
    "stat",
    read_test_stat,
    {"type": "string", "enum": [stat.value for stat in TestStat]},
)
TEST_ID: Final = PathParameter(
    "test_id",
    read_test_id,
    {"type": "string", "format": "uuid", "pattern": f"^{TEST_ID_PATTERN}$"},
)
QUARANTINE_ID: Final = PathParameter(
    "quarantine_id",
    read_uuid,
    {"type": "string", "format": "uuid", "pattern": f"^{UUID_PATTERN}$"},
)
FAILURE_ID: Final = PathParameter(
    "failure_id",
    read_uuid,
    {"type": "string", "format": "uuid", "pattern": f"^{UUID_PATTERN}$"},
)
