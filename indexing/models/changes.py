"""The changes that a refresh makes in answers of the API, so that a cache can drop only these."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from indexing.names import RepositoryName


@dataclass(frozen=True, slots=True)
class AnswerChanges:
    """The changes in answers about one repository.

    `tests` are the tests whose detail changed. `search` and `quarantines` are true if a row of the
    search or a quarantine changed. `everything` is true if anything may have changed, because
    another process has refreshed tests of the repository in the meantime.
    """

    repository: RepositoryName
    tests: frozenset[uuid.UUID] = frozenset()
    search: bool = False
    quarantines: bool = False
    everything: bool = False


# Called with the changes of each step, once they are visible.
Changed = Callable[[AnswerChanges], None]
