"""What a refresh changes in the answers of the API, so that a cache can drop just that."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from indexing.names import RepositoryName


@dataclass(frozen=True, slots=True)
class AnswerChanges:
    """What changed in the answers about one repository.

    `tests` are those whose detail changed; `search` if a row of the search did, `quarantines` if a
    quarantine did. `everything` if another process has refreshed tests there meanwhile.
    """

    repository: RepositoryName
    tests: frozenset[uuid.UUID] = frozenset()
    search: bool = False
    quarantines: bool = False
    everything: bool = False


# Called with the changes of each step, once they are visible.
Changed = Callable[[AnswerChanges], None]
