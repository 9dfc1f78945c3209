"""What a principal may do: which operations its scope covers, and which repositories it sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from indexing.models.keys import Scope
from indexing.names import RepositoryName
from service.auth.principal import Principal
from service.http import problems
from service.http.operations import Operation

_INGESTS: Final = frozenset({Operation.SEND_EVENTS, Operation.SEND_TRACES})
_QUARANTINES: Final = frozenset({Operation.ADD_QUARANTINE, Operation.REMOVE_QUARANTINE})
_READS: Final = frozenset(Operation) - _INGESTS - _QUARANTINES

# A CI plugin uses one key to send results and to ask what is quarantined.
OPERATIONS: Final[Mapping[Scope, frozenset[Operation]]] = {
    Scope.READ: _READS,
    Scope.INGEST: frozenset({Operation.QUARANTINES, Operation.QUARANTINE}) | _INGESTS,
    # Whoever quarantines tests has to find them first.
    Scope.QUARANTINE: _READS | _QUARANTINES,
    Scope.ADMIN: frozenset(Operation),
}


class RepositoryDirectory(Protocol):
    """The repositories that exist."""

    async def find_repository(self, name: RepositoryName) -> RepositoryName | None:
        """The stored spelling of a known repository."""


async def find_visible(
    principal: Principal, name: RepositoryName, directory: RepositoryDirectory
) -> RepositoryName:
    """Find a repository that the principal sees, in its stored spelling.

    Raises:
        Problem: 404, the same for one that is absent and one that is not visible.
    """
    # A repository of somebody else is never looked up, so that not even the time taken tells
    # whether it exists.
    found = await directory.find_repository(name) if principal.covers(name) else None
    if found is None:
        raise problems.not_found("repository")
    return found


async def find_writable(
    principal: Principal, name: RepositoryName, operation: Operation, directory: RepositoryDirectory
) -> RepositoryName:
    """Find a repository that the principal may write to, known or not, in its stored spelling.

    Raises:
        Problem: 404 as for `find_visible`, but not for an unknown repository that the key may
            create; 403 where the scope does not cover the operation.
    """
    if operation in OPERATIONS[principal.scope] and principal.covers(name):
        return await directory.find_repository(name) or name
    await find_visible(principal, name, directory)
    raise problems.missing_scope()


def require_scope(principal: Principal, operation: Operation) -> None:
    """Raise a 403 `Problem` when the principal's scope does not cover the operation."""
    if operation not in OPERATIONS[principal.scope]:
        raise problems.missing_scope()
