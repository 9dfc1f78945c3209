"""Who asks, as far as an answer depends on it: by an application key or by a token of the host."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from indexing.models.keys import ApplicationKey, Scope
from indexing.names import RepositoryName
from service.auth.code_host.access import Host, is_token
from service.auth.code_host.decisions import Finding
from service.http import problems

# No owner has an empty name: whoever has this one sees nothing.
_NOBODY: Final = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """What a credential opens: all of an owner, or one repository.

    `name` tells callers apart and opens nothing. From `until` on the credential has to be looked
    at anew.
    """

    name: str
    scope: Scope
    owner: str
    repository: str | None = None
    until: datetime | None = None

    def covers(self, name: RepositoryName) -> bool:
        """Whether it is the caller's to see, should it be there."""
        if self.repository is None:
            return self.owner.lower() == name.owner.lower()
        return RepositoryName(self.owner, self.repository).key == name.key


def holder_of_key(key: ApplicationKey) -> Caller:
    """Whoever has that application key, which is good."""
    return Caller(f"key {key.id}", key.scope, key.owner, key.repository, key.expires_at)


def require_host(host: Host | None, token: str) -> Host:
    """The host that may have issued the token.

    Raises:
        Problem: 403 where there is none, or it issues no such thing.
    """
    if host is None or not is_token(token):
        raise problems.forbidden()
    return host


def name_of_token(host: Host, token: str) -> str:
    """The name of whoever has that token, whatever it opens."""
    return f"token {host.identify(token)}"


async def find_holder_of_token(host: Host, token: str, name: RepositoryName) -> Caller:
    """Whoever has that token, in regard to that repository alone.

    Raises:
        Problem: 403 where the host does not know the token, 503 where it cannot say.
    """
    verdict = await host.check(token, name)
    if verdict.finding is Finding.BAD_CREDENTIAL:
        raise problems.forbidden()
    caller = name_of_token(host, token)
    if verdict.finding is Finding.HIDDEN:
        return Caller(caller, Scope.READ, _NOBODY)
    return Caller(caller, Scope.READ, name.owner, name.name, verdict.until)
