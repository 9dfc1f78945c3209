"""Random histories of a repository: loads in any order, and whatever else changes derived data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hypothesis import strategies as st

from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import after, make_executions, make_run

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED

# With these, a report of `t` is large enough to fail as a whole.
OTHERS = tuple(f"other-{number}" for number in range(20))


@dataclass(frozen=True)
class Report:
    """One result of the test `t`. `others`: the conclusion of 20 more tests of the run."""

    hours: int
    commit: str
    conclusion: Conclusion
    job: str = "unit"
    branch: str = "main"
    retried: bool = False
    others: Conclusion | None = None


@dataclass(frozen=True)
class Change:
    """Something else that happens: what, and when."""

    what: str
    hours: int = 0


def reports(commits: int, hours: int) -> st.SearchStrategy[Report]:
    return st.builds(
        Report,
        st.integers(-hours, 0),
        st.integers(0, commits).map(str),
        st.sampled_from([PASSED, PASSED, PASSED, FAILED, SKIPPED]),
        job=st.sampled_from(["unit", "unit", "slow"]),
        branch=st.sampled_from(["main", "main", "main", "next"]),
        retried=st.sampled_from([False] * 7 + [True]),
        others=st.sampled_from([None] * 9 + [FAILED, PASSED]),
    )


CHANGES = st.builds(
    Change,
    st.sampled_from(["prune", "branch", "quarantine", "unquarantine", "remove", "repeat"]),
    st.integers(-45 * 24, 0),
)

# Few commits within days, many commits within hours, and months.
HISTORIES = st.one_of(
    st.lists(reports(4, 60), max_size=25),
    st.lists(reports(60, 30), min_size=20, max_size=45),
    st.lists(reports(25, 45 * 24), max_size=30),
)


async def load(store: Store, repository: RepositoryName, report: Report, number: int) -> None:
    run = make_run(
        f"run-{report.hours}-{report.commit}-{report.others}",
        branch=report.branch,
        commit=report.commit,
        job=report.job,
    )
    names = [("t", report.conclusion)]
    if report.others is not None:
        names += [(name, report.others) for name in OTHERS]
    executions = make_executions(
        run,
        names,
        after(hours=report.hours, seconds=number),
        repository=repository,
        needed_retries=report.retried,
        duration=0.1 * (number % 7),
        framework=f"pytest {number % 3}",
    )
    half = len(executions) // 2
    for part in (executions[:half], executions[half:]):
        if part:
            await store.write_results(repository, {run: part})


async def change(store: Store, repository: RepositoryName, change: Change, now: datetime) -> None:
    if change.what == "prune":
        await store.prune(after(hours=change.hours), now)
    elif change.what == "branch":
        branch = "main" if change.hours % 2 else "next"
        await store.set_repository(repository, RepositoryChange(default_branch=branch), now)
    elif change.what == "quarantine":
        pattern = "n*" if change.hours % 2 else None
        request = QuarantineRequest("t", "by hand", branch=pattern)
        await store.add_quarantine(repository, request, after(hours=change.hours))
    elif change.what == "unquarantine":
        page = await store.list_quarantines(QuarantineQuery(repository, now), Anchor(), None)
        for quarantine in page.rows[:1]:
            await store.remove_quarantine(repository, quarantine.key.id, now)
    elif change.what == "remove":
        selection = ExecutionSelection(repository, job_name="slow", test_name="t")
        await store.remove_executions(selection, now)


def split(steps: Sequence[Report], changes: Sequence[tuple[int, Change]]) -> list[Report | Change]:
    """Insert each change after the given number of reports."""
    mixed: list[Report | Change] = list(steps)
    for place, each in sorted(changes, key=lambda placed: -placed[0]):
        mixed.insert(place % (len(steps) + 1), each)
    return mixed
