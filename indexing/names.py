"""Valid forms of names: owners, repositories, and names that untrusted producers choose."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from indexing.errors import InvalidValueError

OWNER_MAX_LENGTH: Final = 40
# The patterns of the API, in ASCII only: `\w` matches more. Use them with `fullmatch`, because `$`
# matches before a line feed too.
OWNER_PATTERN: Final = r"[a-zA-Z0-9\-]+"
REPOSITORY_PATTERN: Final = r"[a-zA-Z0-9_\-\.]+"

# Names of tests, pipelines and jobs are index keys. Both stores accept names of this length: an
# Elasticsearch term has at most 32,766 bytes, and the key there begins with the repository.
STORED_NAME_MAX_BYTES: Final = 8_000

# How many names of repositories are cached, and the length of the longest of them.
_PARSED_REPOSITORIES: Final = 1_024
_SHORT_REPOSITORY: Final = 200

_OWNER: Final = re.compile(OWNER_PATTERN)
_REPOSITORY: Final = re.compile(REPOSITORY_PATTERN)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RepositoryName:
    """The `owner/name` of a repository as written; compare names by `key`.

    `key` is the name in lower case, because case does not distinguish repositories.
    """

    owner: str
    name: str
    # Computed once: a request reads it several times.
    key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.owner}/{self.name}".lower())

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


def check_owner(text: str) -> str:
    """Return the owner, or raise `InvalidValueError` if its form is invalid."""
    if len(text) > OWNER_MAX_LENGTH or not _OWNER.fullmatch(text):
        raise InvalidValueError(
            f"an owner is 1 to {OWNER_MAX_LENGTH} ASCII letters, digits and hyphens"
        )
    return text


def check_repository(text: str) -> str:
    """Return the repository's own name, or raise `InvalidValueError`."""
    if not _REPOSITORY.fullmatch(text):
        raise InvalidValueError(
            "a repository name is one or more ASCII letters, digits, '_', '-' and '.'"
        )
    return text


def parse_repository(text: str) -> RepositoryName:
    """Parse `owner/name`; raise `InvalidValueError` for anything else."""
    return (_parse_again if len(text) <= _SHORT_REPOSITORY else _parse)(text)


def _parse(text: str) -> RepositoryName:
    owner, slash, name = text.partition("/")
    if not slash:
        raise InvalidValueError("a repository is written owner/name")
    return RepositoryName(check_owner(owner), check_repository(name))


# The events of a file are of few repositories.
_parse_again: Final = lru_cache(_PARSED_REPOSITORIES)(_parse)


def check_text(text: str) -> str:
    """Return the text; raise `InvalidValueError` if it has NUL or lone surrogates.

    Stores and JSON parsers handle those differently.
    """
    if "\0" in text:
        raise InvalidValueError("must not hold a NUL character")
    if _SURROGATE.search(text):
        raise InvalidValueError("must not hold a lone surrogate")
    return text


def replace_refused(text: str) -> str:
    """Return the text with U+FFFD in place of each character that `check_text` refuses."""
    return _SURROGATE.sub("\ufffd", text.replace("\0", "\ufffd"))


def check_stored_name(text: str) -> str:
    """Return the name of a test, pipeline or job, or raise `InvalidValueError`."""
    check_text(text)
    if not text:
        raise InvalidValueError("must not be empty")
    if len(text) * 4 > STORED_NAME_MAX_BYTES and len(text.encode()) > STORED_NAME_MAX_BYTES:
        raise InvalidValueError(f"must have at most {STORED_NAME_MAX_BYTES} bytes of UTF-8")
    return text
