"""The interfaces that every backend implements, with their guarantees.

For all methods: repository names match regardless of case. Each `datetime` is aware and in UTC.
Driver exceptions become `indexing.errors`, with the original as their cause:
`StoreUnavailableError` if a retry may help, `StoreError` otherwise. A read returns its complete
result or raises; it never returns a part as if it were the whole. `tests/contracts` checks this.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from indexing.models.arrivals import ArrivalKey, Arrivals
from indexing.models.changes import Changed
from indexing.models.event_aggregates import Bars, EventAggregate
from indexing.models.events import EventKey, EventQuery, EventRow, StoredEvent
from indexing.models.executions import Execution, Run
from indexing.models.keys import ApplicationKey
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    UNKNOWN,
    Actor,
    AddedQuarantine,
    Quarantine,
    QuarantineChange,
    QuarantineChangeKey,
    QuarantineKey,
    QuarantineQuery,
    QuarantineRequest,
)
from indexing.models.repositories import Repository, RepositoryChange
from indexing.models.selections import ExecutionSelection, SelectionExtent
from indexing.models.tests import IdentityKey, TestDetail, TestIdentity, TestQuery
from indexing.names import RepositoryName
from indexing.pruning import PruneRun
from indexing.store.insights import InsightReader
from indexing.store.key_reader import KeyReader
from indexing.store.notifications import NotificationStore
from indexing.yielding import GoesOn, always

# Called with the number of tests that a long call has refreshed so far.
Steps = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The permanent identity of a store: rebuilding an index keeps it.

    `cursor_secret` is 32 random bytes, created once and read by every process.
    """

    store_id: str
    cursor_secret: bytes


class EventOutcome(Enum):
    """The outcome of writing one event."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    # Another event has the same (repository, received_at, id); it was left unchanged.
    CONFLICT = "conflict"
    # The store can never hold it; other events of the call are not affected.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ExecutionCount:
    """How many executions of one call were new, and how many were stored already."""

    written: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class PruneCount:
    """The number of rows that retention removed."""

    events: int
    executions: int


@dataclass(frozen=True, slots=True)
class ForgetCount:
    """The number of removed rows; `tests` is 0 if no test of that name was known."""

    tests: int
    executions: int


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The contents of a store; `stale_tests` wait for `Writer.refresh_tests`.

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


class Reader(InsightReader, KeyReader, Protocol):
    """The reads of a store that the API needs.

    Paged lists take an anchor and a limit of at least 1. A page contains the rows directly after
    the anchor (or before it, if the anchor is `backward`), always in the order of the list. Rows
    written or removed between two calls neither repeat nor hide any other row. The cost of a page
    does not depend on its position in the list.
    """

    async def get_identity(self) -> StoreIdentity:
        """Return the permanent identity of this store."""

    def revision(self) -> Hashable | None:
        """Return a value that changes with every commit of another process; cheap, without waiting.

        None if the store does not support this. Data read after a call is at least as new as its
        revision. The value may also change without such a commit; it does so if a call of this
        process was cancelled, because nobody knows what that call has changed.
        """

    async def ping(self) -> None:
        """Check that the store responds; raise `StoreError` if it does not."""

    async def get_status(self, now: datetime) -> StoreStatus:
        """Count the contents, and the quarantines in force at `now`; may take as long as a scan."""

    async def get_prune_run(self) -> PruneRun | None:
        """Return the record of the last retention run; `None` if none was recorded."""

    async def find_repository(self, name: RepositoryName) -> Repository | None:
        """Find a repository by its name, regardless of case."""

    async def list_repositories(self) -> Sequence[Repository]:
        """List all known repositories, sorted by name regardless of case."""

    async def list_events(
        self, query: EventQuery, anchor: Anchor[EventKey], limit: int
    ) -> Page[EventRow]:
        """Return one page of the log, newest first; an empty page for an unknown repository.

        It has at most `limit` events and `MOST_PAGE_BYTES`, or a single event.

        Raises:
            StaleKeyError: retention has removed the row of the anchor.
        """

    async def aggregate_events(self, query: EventQuery, bars: Bars) -> EventAggregate:
        """Count the events of the log that match; all zero for an unknown repository.

        Equal to counting the rows of `list_events`. `bars` are those of the query's range
        (`indexing.models.event_aggregates.choose_bars`).

        Raises:
            StoreUnavailableError: counting takes too long.
        """

    async def find_newest_arrival(self) -> ArrivalKey:
        """Return a position in the order of arrival, before all writes that are not finished."""

    async def list_arrivals(
        self, after: ArrivalKey, limit: int, among: Collection[RepositoryName] | None = None
    ) -> Arrivals:
        """Return up to `limit` events that arrived after that position, in the order of arrival.

        They have at most `MOST_BYTES` together, or are a single event. They are of the repositories
        in `among`, or of all. A reader that continues from `until` sees every written event at
        least once, whatever its date and its writer.
        """

    async def search_tests(
        self, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
    ) -> Page[TestIdentity]:
        """Return one page of the matching identities on the default branch.

        Patterns match as `indexing.globs.matches` says. If the sort key of a row changes between
        two pages (names do not), it may appear twice or not at all; no other row is affected.
        """

    async def find_identity(
        self, repository: RepositoryName, identity_id: bytes
    ) -> IdentityKey | None:
        """Return the current sort key of one identity on the default branch."""

    async def get_test(self, repository: RepositoryName, test_id: uuid.UUID) -> TestDetail | None:
        """Return the test with that id if it belongs to this repository."""

    async def measure_executions(self, selection: ExecutionSelection) -> SelectionExtent:
        """Measure what `Writer.remove_executions` would remove; may take as long as a scan."""

    async def list_quarantines(
        self, query: QuarantineQuery, anchor: Anchor[QuarantineKey], limit: int | None
    ) -> Page[Quarantine]:
        """Return a page of the quarantines in force, oldest first; all of them without a limit."""

    async def get_quarantine(
        self, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
    ) -> Quarantine | None:
        """Return one quarantine of this repository if it is in force at `now`."""

    async def list_quarantine_changes(
        self,
        repository: RepositoryName,
        now: datetime,
        anchor: Anchor[QuarantineChangeKey],
        limit: int,
    ) -> Page[QuarantineChange]:
        """Return one page of the changes of quarantines, newest first.

        Every acknowledged change within retention is listed. A quarantine that expired by `now` has
        a change at its expiry. A change by a killed call is listed after the next change of that
        quarantine at the latest.
        """

    async def close(self) -> None:
        """Close all connections; no call is allowed afterwards."""


class Writer(Protocol):
    """The writes of a store.

    Every call is idempotent. Every read that begins after a call has returned sees its effects. In
    the embedded store each call is atomic for readers and on a kill, unless its method differs. In
    a cluster only each row is atomic: repeating an interrupted call does the rest of its work.
    """

    async def ensure_repository(self, name: RepositoryName) -> Repository:
        """Register the repository; return it with its stored spelling and settings."""

    async def set_repository(
        self, name: RepositoryName, change: RepositoryChange, now: datetime
    ) -> Repository:
        """Register the repository and change its settings.

        A change of automatic quarantine also writes its event into the log, received at `now`
        (`indexing.quarantine.configuration`); setting the current value again writes none. The
        tests that the change affects are stale until `refresh_tests`.
        """

    async def set_code_owners(self, name: RepositoryName, text: str | None) -> None:
        """Register the repository and store its CODEOWNERS file (`check_code_owners`), or none."""

    async def write_events(self, events: Sequence[StoredEvent]) -> Sequence[EventOutcome]:
        """Store events of any known repositories; return one outcome each, in order.

        Raises:
            UnknownRepositoryError: `ensure_repository` was not called for one of them.
        """

    async def refresh_event_counts(self, now: datetime, goes_on: GoesOn = always) -> int:
        """Prepare the counts of days with new events, while `goes_on`; return how many."""

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        """Store executions of several runs; one that is stored already stays unchanged.

        Their tests are stale until `refresh_tests`, even if the executions are unchanged. The cost
        is linear in the input, even for runs that differ only in commits and have many stored
        executions. One exception: a job that becomes an infrastructure failure, or stops being one,
        makes all of its tests stale.

        Raises:
            UnknownRepositoryError: `ensure_repository` was not called for it.
        """

    async def refresh_tests(
        self,
        now: datetime,
        progress: Steps | None = None,
        repository: RepositoryName | None = None,
        changed: Changed | None = None,
    ) -> int:
        """Recompute the derived data of every stale test from its executions.

        With `repository`, only the stale tests there, so that no tenant waits for another. Those
        that `rebuild` or `prune` made stale may be left to that call, so that no load waits for it.

        `changed` is called after each step with the answers of the API that the step changed. Only
        a call that ends without an error has reported all of its changes.

        First and last failure and success outlive their executions. The call works in atomic steps;
        the next one finishes what a killed one left stale. Returns the number of tests; `progress`
        is called after each step.

        If the repository has automatic quarantine on, a test for which
        `indexing.quarantine.decision` gives a reason is quarantined from `now` on, on every branch
        and in the same step, unless a quarantine of the same test and branches is in force. Later
        passes do not end it. Results that arrive later but are older than the decision can end it:
        if they show that there was no reason, the quarantine is withdrawn as if it had never
        existed. So results dated before any decision lead to the same quarantines, in whatever
        order they arrive. A decision is final once a setting of the repository other than the
        default branch changes, or retention removes results of the test.
        """

    async def remove_executions(
        self, selection: ExecutionSelection, now: datetime, progress: Steps | None = None
    ) -> int:
        """Remove the selected executions as if they had never arrived; return their number.

        The removal works in atomic steps. Then it recomputes the derived data, like
        `refresh_tests(now)`: which jobs failed as a whole, and the affected tests, with first and
        last failure and success from the stored executions. An automatic quarantine based on
        removed executions is withdrawn. Tests without executions stay known.

        If the selection is of dates outside a range, first and last failures and successes outside
        it are removed too, even if their executions are no longer stored. Evidence of quarantines
        that is later than the range then counts as evidence until `now`.

        Writing the same executions again restores everything. An interrupted call has done part of
        its work; repeating it does the rest.
        """

    async def forget_test(
        self,
        repository: RepositoryName,
        test_name: str,
        now: datetime,
        progress: Steps | None = None,
    ) -> ForgetCount:
        """Remove a test: its executions, as `remove_executions` does, its identities, and itself.

        Its automatic quarantines in force are withdrawn, as they derive from its executions.
        Quarantines made by people stay, and so do the records of ended ones.
        """

    async def add_quarantine(
        self, repository: RepositoryName, request: QuarantineRequest, now: datetime
    ) -> AddedQuarantine:
        """Quarantine a test from `now` on.

        If one for the same test and branch is in force, it keeps its id and start and takes on the
        new reason, owner, expiry and source. An automatic request does not change one made by a
        person.

        Raises:
            TooManyQuarantinesError: it would be one more than `MAX_QUARANTINES` in force, or than
                `MAX_QUARANTINES_PER_TEST` of its test.
        """

    async def remove_quarantine(
        self,
        repository: RepositoryName,
        quarantine_id: uuid.UUID,
        now: datetime,
        actor: Actor = UNKNOWN,
    ) -> bool:
        """End a quarantine; return false if the repository has none with that id in force.

        If it covered every branch, an automatic one for that test starts again only on a failed or
        retried execution on the default branch that is newer than all such executions stored now.
        After an expired quarantine, the execution has to be newer than its end.
        """

    async def add_key(self, key: ApplicationKey) -> None:
        """Store a new key; a key for a single repository also registers that repository."""

    async def revoke_key(self, key_id: str, now: datetime) -> bool:
        """Revoke a key; return false if the id is unknown. A second call keeps the first time."""

    async def prune(
        self,
        before: datetime,
        now: datetime,
        progress: Steps | None = None,
        rollups_before: datetime | None = None,
    ) -> PruneCount:
        """Remove events received and executions finished before that moment (retention).

        Changes of quarantines and notifications before it are removed too. Tests stay, with their
        first and last failure and success, and so do quarantines in force. The derived data is
        recomputed, as by `refresh_tests(now)`. The daily rows of tests stay too, except those of
        days before both `before` and `rollups_before`, if it is set.
        """

    async def replace_prune_run(self, seen: PruneRun | None, run: PruneRun) -> bool:
        """Record a retention run; return false if the last record is not `seen` any more.

        If several processes have seen the same record, only one of them gets true.
        """

    async def rebuild(self, now: datetime, progress: Steps | None = None) -> int:
        """Recompute all derived data, as if every test were stale; return the number of tests."""


class Store(Reader, Writer, NotificationStore, Protocol):
    """The whole interface of a backend."""
