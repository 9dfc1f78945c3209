"""Who sends a request, as far as an answer depends on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from indexing.models.keys import Scope


class KeyName(NamedTuple):
    """The application key of a principal, as lists of changes name it."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Principal:
    """What a credential opens: all repositories of an owner, or one repository.

    `name` tells principals apart and opens nothing. After `until` the credential has to be checked
    again. `key` is None for a token of the code host.
    """

    name: str
    scope: Scope
    owner: str
    repository: str | None = None
    until: datetime | None = None
    key: KeyName | None = None
