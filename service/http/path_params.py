"""The parameters in a path, checked by hand because the checks are part of every request."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
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
_TEST_ID_PATTERN: Final = (
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-5[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
)


@dataclass(frozen=True, slots=True, eq=False)
class PathParameter:
    """A parameter. `check` raises `InvalidValueError`; `schema` is the same rule in JSON Schema."""

    name: str
    check: Callable[[str], object]
    schema: Mapping[str, Any]


def _check_test_id(text: str) -> None:
    if read_uuid(text).version != _VERSION_5:
        raise InvalidValueError("must be a version 5 UUID")


def _one_of(name: str, values: type[StrEnum]) -> PathParameter:
    allowed = [each.value for each in values]

    def check(text: str) -> None:
        if text not in allowed:
            raise InvalidValueError(f"must be one of {', '.join(allowed)}")

    return PathParameter(name, check, {"type": "string", "enum": allowed})


def _uuid(
    name: str, check: Callable[[str], object] = read_uuid, pattern: str = UUID_PATTERN
) -> PathParameter:
    schema = {"type": "string", "format": "uuid", "pattern": f"^{pattern}$"}
    return PathParameter(name, check, schema)


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
STAT: Final = _one_of("stat", Stat)
TEST_STAT: Final = _one_of("stat", TestStat)
TEST_ID: Final = _uuid("test_id", _check_test_id, _TEST_ID_PATTERN)
QUARANTINE_ID: Final = _uuid("quarantine_id")
FAILURE_ID: Final = _uuid("failure_id")


def read_id(values: Mapping[str, str], parameter: PathParameter) -> uuid.UUID:
    """Return a UUID from the values of a path that have been checked."""
    return read_uuid(values[parameter.name])
