"""Computes the roll-ups of tests: merges new executions where exact, else reads all executions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from indexing.errors import DATA_ERRORS
from indexing.health.first_passes import derive_first_pass
from indexing.health.history import History, build_history, merge_history, read_history
from indexing.health.judged_jobs import find_left_out
from indexing.health.merging import InexactMergeError, build_rollup, merge_rollup
from indexing.health.observations import Judgement, Observation
from indexing.health.rollup_text import read_rollup, write_rollup
from indexing.health.rollups import DailyRollup, Job, KeptVerdict, Rollup, find_newest
from indexing.health.window import NEVER, day_number
from indexing.store.elasticsearch.client.scanning import scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.marked_executions import MarkedExecution
from indexing.store.elasticsearch.derived.observations import ObservedBranch, OnBranch
from indexing.store.elasticsearch.tests import JobRollup, StoredTest
from indexing.timestamps import DAY_MICROSECONDS

_BUCKETS_A_PAGE: Final = 2_000
# The most commits that one query names.
_COMMITS_AT_ONCE: Final = 500
_FOREVER: Final = 2**63 - 1

# The key of a verdict: (test id, pipeline, job, commit).
VerdictKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class RollupsOfTest:
    """The roll-ups of one test.

    `merged` has the ids of the executions on the newest day of each roll-up. `fresh` are the
    executions that may be the first or last failure or success. Neither has executions of jobs by
    which the test is not judged. `executions` are those of the markers; if they are set, nothing
    else has changed since the test was stored. `history` is the new history of the test.
    `judgement` is set if it follows from the only execution of a new test, with flaky detection on.
    """

    rollups: Mapping[Job, Rollup]
    merged: Mapping[Job, tuple[str, ...]]
    fresh: Sequence[Observation]
    executions: Sequence[MarkedExecution] | None = None
    history: History = field(default_factory=History)
    judgement: Judgement | None = None

    @property
    def newest(self) -> int | None:
        return find_newest(self.rollups.values()).newest_at if self.rollups else None

    @property
    def unchanged_until(self) -> int | None:
        """The time before which nothing has changed; None if anything may have changed."""
        if self.executions is None:
            return None
        return min((seen.at for seen in self.fresh), default=_FOREVER)

    def stored_as(self) -> tuple[JobRollup, ...]:
        return tuple(
            JobRollup(*job, self.merged[job], write_rollup(rollup).decode())
            for job, rollup in sorted(self.rollups.items())
        )


async def merge_tests(
    cluster: Cluster,
    observed: ObservedBranch,
    tests: Mapping[str, StoredTest],
    executions: Mapping[str, Sequence[MarkedExecution]],
    failed_runs: Collection[str],
) -> dict[str, RollupsOfTest]:
    """Merge new executions into the roll-ups of tests; leave out tests where that is not exact.

    `failed_runs` are the ids of the runs of new executions that failed as a whole.
    """
    branch = observed.branch or ""
    stored = {
        test: document.rollups
        for test, document in tests.items()
        if document.rollups is not None
        # A new test has neither a branch nor a history.
        and (
            document.branch is None or (document.branch == branch and document.history is not None)
        )
        and test in executions
    }
    if not stored:
        return {}

    def find_all() -> dict[VerdictKey, int]:
        unknown: dict[VerdictKey, int] = {}
        for test, rollups in tuple(stored.items()):
            try:
                unknown |= find_unknown(test, rollups, executions[test], branch)
            except DATA_ERRORS:
                # Damaged roll-ups are computed again.
                del stored[test]
        return unknown

    unknown = await asyncio.to_thread(find_all)
    earlier = await find_earlier(cluster, observed, unknown)
    final_day = observed.retention.final_day

    def merge_all() -> dict[str, RollupsOfTest]:
        merged: dict[str, RollupsOfTest] = {}
        for test, rollups in stored.items():
            with suppress(InexactMergeError, *DATA_ERRORS):
                first = None
                if tests[test].is_new:
                    first = find_first_pass(executions[test], branch, failed_runs, final_day)
                if first is not None:
                    merged[test] = first
                    continue
                merged[test] = merge_test(
                    test,
                    rollups,
                    executions[test],
                    branch,
                    failed_runs,
                    earlier,
                    _history_to_merge(tests[test], branch),
                    final_day,
                )
        return merged

    # Reading and merging the roll-ups of hundreds of tests would block the event loop.
    return await asyncio.to_thread(merge_all)


def find_first_pass(
    executions: Sequence[MarkedExecution],
    branch: str,
    failed_runs: Collection[str],
    final_day: int,
) -> RollupsOfTest | None:
    """Return the roll-ups of a new test whose only execution passed; None for any other test."""
    if len(executions) != 1:
        return None
    (execution,) = executions
    if execution.facts is None or execution.branch != branch:
        return None
    seen = execution.observe(failed_runs)
    if day_number(seen.at) <= final_day:
        return None
    first = derive_first_pass(seen, flaky_detection=True)
    if first is None or first.merged.rollup is None:
        return None
    job = seen.job
    return RollupsOfTest(
        {job: first.merged.rollup},
        {job: (execution.id,)},
        [seen],
        executions,
        first.history,
        first.judgement,
    )


def history_on(test: StoredTest, branch: str) -> History:
    """Return the history of a test on that branch."""
    if test.branch != branch or test.history is None:
        return History()
    lasting = test.lasting_verdicts
    return read_history(test.history.encode(), None if lasting is None else lasting.encode())


def _history_to_merge(test: StoredTest, branch: str) -> History:
    """Return the same as `history_on`.

    Raises:
        InexactMergeError: an earlier release stored the test, without its lasting verdicts.
    """
    history = history_on(test, branch)
    if test.lasting_verdicts is None and history.flaky:
        raise InexactMergeError
    return history


def build_test(
    seen: Iterable[OnBranch],
    before: History | None = None,
    final_day: int = NEVER,
    judged: Collection[Job] = (),
) -> RollupsOfTest:
    """Compute the roll-ups of a test from all of its executions on the default branch.

    The new history keeps the days of the history `before` up to `final_day`, which are final.
    `judged` are the jobs that the test was judged by; of too many jobs, these are kept first.
    """
    jobs: dict[Job, list[OnBranch]] = {}
    for each in seen:
        jobs.setdefault(each.observation.job, []).append(each)
    left_out = find_left_out(
        0, jobs, lambda job: min(each.observation.at for each in jobs[job]), before=judged
    )
    jobs = {job: own for job, own in jobs.items() if job not in left_out}
    rollups: dict[Job, Rollup] = {}
    merged: dict[Job, tuple[str, ...]] = {}
    days: dict[Job, Sequence[DailyRollup]] = {}
    verdicts: dict[Job, Mapping[str, KeptVerdict]] = {}
    for job, own in jobs.items():
        rollup, days[job], verdicts[job] = build_rollup(each.observation for each in own)
        if rollup is not None:
            rollups[job] = rollup
            since = day_number(rollup.newest_at) * DAY_MICROSECONDS
            merged[job] = tuple(sorted({each.id for each in own if each.observation.at >= since}))
    return RollupsOfTest(
        rollups,
        merged,
        [each.observation for own in jobs.values() for each in own],
        history=build_history(before or History(), days, final_day, verdicts),
    )


def merge_test(
    test_id: str,
    stored: Sequence[JobRollup],
    executions: Sequence[MarkedExecution],
    branch: str,
    failed_runs: Collection[str],
    earlier: Collection[VerdictKey],
    history: History | None = None,
    final_day: int = NEVER,
) -> RollupsOfTest:
    """Merge new executions into the stored roll-ups of a test.

    `failed_runs` are the runs that failed as a whole. `earlier` are the commits with older
    executions, among those that `find_unknown` returned.

    Raises:
        InexactMergeError: the roll-ups have to be computed from all executions.
    """
    rollups = {each.job: read_rollup(each.text.encode()) for each in stored}
    merged = {each.job: each.merged for each in stored}
    known = {each_id for ids in merged.values() for each_id in ids}
    new: dict[Job, dict[str, Observation]] = {}
    fresh: list[Observation] = []
    for execution in executions:
        job, is_known = execution.job, execution.id in known
        if job is None:
            if not is_known:
                raise InexactMergeError
        elif execution.branch == branch:
            seen = execution.observe(failed_runs)
            fresh.append(seen)
            if not is_known:
                new.setdefault(job, {})[execution.id] = seen
    left_out = _leave_out_further_jobs(rollups, new)
    days = {job: {d.day: d for d in rollup.days} for job, rollup in rollups.items() if rollup}
    verdicts: dict[Job, Mapping[str, KeptVerdict]] = {}
    for job, of_job in new.items():
        rollup = rollups.get(job)
        if rollup is None:
            after, changed, verdicts[job] = build_rollup(of_job.values())
        else:
            has_earlier = partial(_is_in, earlier, test_id, job)
            after, changed, verdicts[job] = merge_rollup(rollup, of_job.values(), has_earlier)
        rollups[job] = after
        days[job] = {} if after is None else {day.day: day for day in after.days}
        days[job] |= {day.day: day for day in changed}
        if after is not None:
            before = merged.get(job, ())
            if rollup is not None and day_number(rollup.newest_at) < day_number(after.newest_at):
                before = ()
            merged[job] = _of_newest_day(after, before, of_job.items())
    return RollupsOfTest(
        {job: rollup for job, rollup in rollups.items() if rollup is not None},
        merged,
        [seen for seen in fresh if seen.job not in left_out] if left_out else fresh,
        executions,
        merge_history(
            history or History(),
            {job: [by_day[day] for day in sorted(by_day)] for job, by_day in days.items()},
            {
                job: min(day_number(seen.at) for seen in of_job.values())
                for job, of_job in new.items()
            },
            final_day,
            verdicts,
        ),
    )


def _leave_out_further_jobs(
    judged: Mapping[Job, object], new: dict[Job, dict[str, Observation]]
) -> frozenset[Job]:
    """Remove the new executions of jobs by which the test is not judged, as it has too many."""
    left_out = find_left_out(
        len(judged),
        new.keys() - judged.keys(),
        lambda job: min(seen.at for seen in new[job].values()),
    )
    for job in left_out:
        del new[job]
    return left_out


def find_unknown(
    test_id: str, stored: Sequence[JobRollup], executions: Iterable[MarkedExecution], branch: str
) -> dict[VerdictKey, int]:
    """Return the commits that may have older executions, with their number of new executions.

    Older executions are not part of a roll-up any more, so only these commits have to be looked up
    before a merge.
    """
    if not stored:
        return {}
    ids: dict[VerdictKey, set[str]] = {}
    known = {each_id for each in stored for each_id in each.merged}
    for execution in executions:
        if execution.job is not None and execution.branch == branch and execution.id not in known:
            ids.setdefault((test_id, *execution.job, execution.commit), set()).add(execution.id)
    unknown: dict[VerdictKey, int] = {}
    for each in stored:
        new = [verdict for verdict in ids if verdict[1:3] == each.job]
        rollup = read_rollup(each.text.encode()) if new else None
        if rollup is not None and rollup.has_older:
            kept = {verdict.commit for verdict in rollup.verdicts}
            unknown |= {verdict: len(ids[verdict]) for verdict in new if verdict[3] not in kept}
    return unknown


async def find_earlier(
    cluster: Cluster, observed: ObservedBranch, new: Mapping[VerdictKey, int]
) -> set[VerdictKey]:
    """Return those of these commits that have more executions than the new ones.

    The new executions must be searchable already.
    """
    commits = sorted({commit for *_, commit in new})
    tests = sorted({test for test, *_ in new})
    found: set[VerdictKey] = set()
    for start in range(0, len(commits), _COMMITS_AT_ONCE):
        filters: list[Mapping[str, Any]] = [
            {"terms": {"test_id": tests}},
            {"terms": {"commit": commits[start : start + _COMMITS_AT_ONCE]}},
        ]
        async for buckets in scan_groups(
            cluster.connection,
            cluster.layout.executions,
            observed.query({"bool": {"filter": filters}}),
            ("test_id", "pipeline_name", "job_name", "commit"),
            size=_BUCKETS_A_PAGE,
            routing=observed.routing,
        ):
            for bucket in buckets:
                key = bucket["key"]
                verdict = (key["test_id"], key["pipeline_name"], key["job_name"], key["commit"])
                if verdict in new and bucket["doc_count"] > new[verdict]:
                    found.add(verdict)
    return found


def _is_in(earlier: Collection[VerdictKey], test_id: str, job: Job, commit: str) -> bool:
    return (test_id, *job, commit) in earlier


def _of_newest_day(
    rollup: Rollup, before: Iterable[str], new: Iterable[tuple[str, Observation]]
) -> tuple[str, ...]:
    """Return the ids of the executions on the roll-up's newest day, from both sources."""
    newest = day_number(rollup.newest_at)
    ids = set(before)
    ids.update(each for each, seen in new if day_number(seen.at) == newest)
    return tuple(sorted(ids))
