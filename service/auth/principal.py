"""The principal of a request: all of its sender that a response may depend on. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from indexing.models.keys import Scope


class KeyName(NamedTuple):
    """The id and name of an application key, as lists of changes show them."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request, with access to all repositories of an owner, or to one repository.

    `name` identifies the principal and is no secret. After `until` the credential has to be checked
    again. `key` is `None` for a token of the code host.
    """

    name: str
    scope: Scope
    owner: str
    repository: str | None = None
    until: datetime | None = None
    key: KeyName | None = None
