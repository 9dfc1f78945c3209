"""The two interfaces that every backend implements, with the promises that it makes.

For all methods: names of repositories match without regard to case; a `datetime` is aware and in
UTC; drivers' exceptions arrive as `indexing.errors`, with the original as their cause:
`StoreUnavailableError` where asking again may help, `StoreError` otherwise. A read gives all of
what it was asked for or raises: never a part of it as if it were the whole.
`tests/contracts` holds every backend to this.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from indexing.models.events import EventKey, EventQuery, EventRow, StoredEvent
from indexing.models.executions import Execution, Run
from indexing.models.keys import ApplicationKey
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    Quarantine,
    QuarantineKey,
    QuarantineQuery,
    QuarantineRequest,
)
from indexing.models.repositories import Repository, RepositoryChange
from indexing.models.selections import ExecutionSelection, SelectionExtent
from indexing.models.tests import IdentityKey, TestDetail, TestIdentity, TestQuery
from indexing.names import RepositoryName

# Told how many tests a long call has worked out so far.
Steps = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """Which store this is, for as long as it lives: a rebuilt index keeps both.

    `cursor_secret` is 32 random bytes, made once and read back by every process.
    """

    store_id: str
    cursor_secret: bytes


class EventOutcome(Enum):
    """What became of one event that was to be written."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    # Another event stands under the same (repository, received_at, id); it was left as it is.
    CONFLICT = "conflict"
    # The store cannot hold it, whatever is done; the others of its call are not concerned.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ExecutionCount:
    """How many executions of one call were new, and how many stood there already."""

    written: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class PruneCount:
    """How many rows retention dropped."""

    events: int
    executions: int


@dataclass(frozen=True, slots=True)
class ForgetCount:
    """What was removed; `tests` is 0 where no test of that name was known."""

    tests: int
    executions: int


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What a store holds; `stale_tests` wait for `Writer.refresh_tests`.

    `version` is that of its tables or indices, `known_version` the newest that this program knows.
    """

    backend: str
    version: int
    known_version: int
    repositories: int
    events: int
    tests: int
    identities: int
    executions: int
    quarantines: int
    stale_tests: int


class Reader(Protocol):
    """All that the read API asks of a store.

    Paged lists take an anchor and a limit of at least 1. A page holds the rows nearest to the
    anchor on its side, in the list's own order whichever way it was reached. Rows written or
    removed between two calls neither repeat nor hide any other row. The cost of a page does not
    depend on how far into the list it lies.
    """

    async def get_identity(self) -> StoreIdentity:
        """Which store this is."""

    def revision(self) -> Hashable | None:
        """What changes whenever anybody, in whatever process, committed; cheap, and at once.

        Nothing where the store cannot tell. Whatever is read after a revision was taken is at
        least as new as that revision.
        """

    async def ping(self) -> None:
        """Return when the store answers, else raise `StoreError`."""

    async def get_status(self) -> StoreStatus:
        """Count what the store holds; may take as long as a scan."""

    async def find_repository(self, name: RepositoryName) -> Repository | None:
        """The known repository of that name in any spelling."""

    async def list_repositories(self) -> Sequence[Repository]:
        """All known repositories, by their names without regard to case."""

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        """The application key with that SHA-256, revoked and expired ones included."""

    async def list_keys(self) -> Sequence[ApplicationKey]:
        """All application keys, oldest first."""

    async def list_events(
        self, query: EventQuery, anchor: Anchor[EventKey], limit: int
    ) -> Page[EventRow]:
        """One page of the log, newest first; nothing for an unknown repository.

        Raises:
            StaleKeyError: retention has dropped the row of the anchor.
        """

    async def search_tests(
        self, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
    ) -> Page[TestIdentity]:
        """One page of the identities on the default branch whose names match.

        Agrees with `indexing.globs.matches`. A row whose key changes while a walk is under way
        (only `executions_count` does) may be met twice or not at all; no other row is.
        """

    async def find_identity(
        self, repository: RepositoryName, identity_id: bytes
    ) -> IdentityKey | None:
        """The key of one identity on the default branch, as it is now."""

    async def get_test(self, repository: RepositoryName, test_id: uuid.UUID) -> TestDetail | None:
        """The test of that id, when it is one of this repository."""

    async def measure_executions(self, selection: ExecutionSelection) -> SelectionExtent:
        """What `Writer.remove_executions` would remove; may take as long as a scan."""

    async def list_quarantines(
        self, query: QuarantineQuery, anchor: Anchor[QuarantineKey], limit: int | None
    ) -> Page[Quarantine]:
        """Quarantines in force, oldest first; all of them without a limit."""

    async def get_quarantine(
        self, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
    ) -> Quarantine | None:
        """One quarantine of this repository that is in force at `now`."""

    async def close(self) -> None:
        """Let go of all connections; nothing may be asked afterwards."""


class Writer(Protocol):
    """All that fills a store.

    Every call may be repeated, and then changes nothing more. What it did is seen by every read
    that begins after it has returned. In the embedded store each call is atomic for a reader and
    for a kill, except where a method says otherwise: it happened or it did not. Over several
    machines that holds for each row, and a call that was cut short has done a part of its work:
    repeating it does the rest.
    """

    async def ensure_repository(self, name: RepositoryName) -> Repository:
        """Make the repository known; gives back the spelling and the settings that hold."""

    async def set_repository(
        self, name: RepositoryName, change: RepositoryChange, now: datetime
    ) -> Repository:
        """Make the repository known and change its settings.

        A change of automatic quarantine writes its event into the log, received at `now`, with
        the setting (`indexing.quarantine.configuration`); what is set already writes none.
        The tests that the change bears on are stale until `refresh_tests`.
        """

    async def write_events(self, events: Sequence[StoredEvent]) -> Sequence[EventOutcome]:
        """Store events of any known repositories; one outcome each, in their order.

        Raises:
            UnknownRepositoryError: `ensure_repository` was not called for one of them.
        """

    async def write_executions(
        self, repository: RepositoryName, run: Run, executions: Sequence[Execution]
    ) -> ExecutionCount:
        """`write_results` of one run."""

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        """Store executions of some runs; one that is stored already stays as it is.

        Their tests, the unchanged ones too, are stale until `refresh_tests`. The cost is linear in
        what is given, also where the runs differ by their commits alone and much is stored of
        them already; save that a job which turns into or out of a failure of the infrastructure
        makes all of its tests stale.

        Raises:
            UnknownRepositoryError: `ensure_repository` was not called for it.
        """

    async def refresh_tests(
        self,
        now: datetime,
        progress: Steps | None = None,
        repository: RepositoryName | None = None,
    ) -> int:
        """Work out anew what is derived of every stale test, as a function of its executions.

        With `repository`, of those that are stale there, so that nobody waits for another's.

        First and last failure and success outlive the executions behind them. Goes in steps,
        each of them atomic; whatever a killed call left stale, the next one does. Returns how
        many tests were done; `progress` is told after each step.

        Where the repository asks for it, a test that `indexing.quarantine.decision` says so of is
        quarantined from `now` on, on every branch and in the same step, unless a quarantine of
        that scope is in force. What passes later does not end it. Results that arrive later but
        are older than the decision do: where they show that there was no reason for it, it is
        taken back as if it had never been. So results that were there before any decision end in
        the same quarantines, whatever the order and the calls that they came in. A decision is
        final once a setting of the repository changes or retention drops results of the test.
        """

    async def remove_executions(
        self, selection: ExecutionSelection, now: datetime, progress: Steps | None = None
    ) -> int:
        """Remove the selected executions as if they had never come; returns how many they were.

        Goes in steps, each of them atomic. Then what they bore on is worked out anew, as by
        `refresh_tests(now)`: whether their jobs failed as a whole, and their tests, with first and
        last failure and success as far as executions are stored. An automatic quarantine that they
        were the reason for is taken back. Tests that are left with nothing stay known.

        Where the selection is of what is dated outside a range, first and last failures and
        successes outside it go too, whether or not the executions behind them are stored; and
        evidence of quarantines that lies after it counts as evidence until `now`.

        Loading the same executions again brings everything back. A call that was cut short has
        done a part of it; repeating it does the rest.
        """

    async def forget_test(
        self,
        repository: RepositoryName,
        test_name: str,
        now: datetime,
        progress: Steps | None = None,
    ) -> ForgetCount:
        """Remove a test: its executions, as by `remove_executions`, its identities, and itself.

        Automatic quarantines in force of it go too, as they follow from its executions. Those that
        people made stay, and so does what is remembered of ended ones.
        """

    async def add_quarantine(
        self, repository: RepositoryName, request: QuarantineRequest, now: datetime
    ) -> Quarantine:
        """Quarantine a test from `now` on.

        Where one for the same test and branch is in force, that one keeps its id and its
        beginning and takes on the new reason, owner, expiry and source; but an automatic request
        changes nothing of one that a person made.
        """

    async def remove_quarantine(
        self, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
    ) -> bool:
        """End a quarantine; false when none of that id is in force in the repository.

        Where it was for every branch, an automatic one for that test begins again only on a
        failed or retried execution on the default branch that is newer than all stored there.
        After one that expired, the execution has to be newer than its end.
        """

    async def add_key(self, key: ApplicationKey) -> None:
        """Store a new key; one for a single repository makes that repository known."""

    async def revoke_key(self, key_id: str, now: datetime) -> bool:
        """End a key; false when there is none of that id. The first revocation's time stays."""

    async def prune(
        self, before: datetime, now: datetime, progress: Steps | None = None
    ) -> PruneCount:
        """Drop the events received and the executions finished before that moment.

        Tests stay, with their first and last failure and success, and so do quarantines. What
        is left is worked out anew, as by `refresh_tests(now)`.
        """

    async def rebuild(self, now: datetime, progress: Steps | None = None) -> int:
        """Work out all derived data anew, as if every test were stale; returns how many were."""


class Store(Reader, Writer, Protocol):
    """A backend is both."""
