"""A test is judged by a limited number of (pipeline, job) pairs: the first that have results."""

from __future__ import annotations

import logging

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.listed_executions import ExecutionQuery
from indexing.models.paging import Anchor
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import HealthStatus, TestQuery
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.loading import detail, load, of_run, state

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test be judged by three pairs."""
    monkeypatch.setattr("indexing.health.judged_jobs.JUDGED_JOBS", 3)


async def load_job(store: Store, job: str, conclusion: Conclusion, at: float) -> None:
    run = make_run(f"run-{job}-{at}", job=job, commit=f"c{at}")
    await load(store, run, ("t", conclusion), at=at)


async def judged_jobs(store: Store) -> list[str]:
    page = await store.search_tests(TestQuery(WIDGETS, ("*",)), Anchor(), 100)
    return sorted(row.key.job_name for row in page.rows)


async def test_a_further_job_is_stored_but_not_judged(store: Store) -> None:
    for number in range(3):
        await load_job(store, f"job-{number}", PASSED, number)
    before = await state(store)
    for number in range(3, 6):
        await load_job(store, "further", FAILED, number)
    assert await state(store) == before
    assert (await detail(store, "t")).health.last_failure_at is None
    query = ExecutionQuery(WIDGETS, derive_test_id(WIDGETS, "t"), NOON, after(days=1))
    listed = await store.list_executions(query, Anchor(), 100)
    assert listed is not None
    assert [row.job_name for row in listed.rows][:3] == ["further"] * 3
    # The jobs that it is judged by go on.
    for number in range(6, 9):
        await load_job(store, "job-1", FAILED, number)
    assert (await detail(store, "t")).health.health_status is HealthStatus.BROKEN
    loaded = await state(store)
    await store.rebuild(NOON)
    assert await state(store) == loaded


async def test_of_the_new_jobs_of_one_load_the_oldest_results_count(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    runs = {make_run(str(hour), job=f"job-{hour}", commit=f"c{hour}"): hour for hour in range(5)}
    newest_first = sorted(runs.items(), key=lambda each: -each[1])
    await store.write_results(
        WIDGETS,
        {
            run: make_executions(run, [("t", PASSED)], after(hours=hour))
            for run, hour in newest_first
        },
    )
    await store.refresh_tests(NOON)
    assert await judged_jobs(store) == ["job-0", "job-1", "job-2"]


async def test_a_removal_makes_room_for_another_job(store: Store) -> None:
    for number in range(4):
        await load_job(store, f"job-{number}", PASSED, number)
    assert await judged_jobs(store) == ["job-0", "job-1", "job-2"]
    await store.remove_executions(of_run("run-job-1-1"), NOON)
    assert await judged_jobs(store) == ["job-0", "job-2", "job-3"]
    loaded = await state(store)
    await store.rebuild(NOON)
    assert await state(store) == loaded


async def test_room_goes_to_the_job_with_the_oldest_result(store: Store) -> None:
    for number in range(3):
        await load_job(store, f"job-{number}", PASSED, number)
    await load_job(store, "later", PASSED, 9)
    await load_job(store, "earlier", PASSED, 5)
    await store.remove_executions(of_run("run-job-1-1"), NOON)
    assert await judged_jobs(store) == ["earlier", "job-0", "job-2"]


async def test_a_further_job_gives_no_evidence_when_a_quarantine_ends(store: Store) -> None:
    """Neither by a failure of its own, nor by moving the window past that of a judged job."""
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    for number in range(3):
        for at in (0, 1, 2):
            await load_job(store, f"job-{number}", FAILED, at)
    (quarantined,) = (await state(store, ["t"]))[2]
    run = make_run("further", job="further", commit="late")
    executions = make_executions(run, [("t", FAILED)], after(days=40))
    await store.write_results(WIDGETS, {run: executions})
    assert await store.remove_quarantine(WIDGETS, quarantined[0], after(days=41))
    await store.refresh_tests(after(days=41))
    # The failures that were known then do not begin it again, a newer one does.
    assert (await state(store, ["t"]))[2] == []
    await load_job(store, "job-1", FAILED, 3)
    assert len((await state(store, ["t"]))[2]) == 1


async def test_late_results_leave_the_judged_jobs_as_they_are(store: Store) -> None:
    for number in range(3):
        await load_job(store, f"job-{number}", PASSED, 48 + number)
    await load_job(store, "older", FAILED, 0)
    assert await judged_jobs(store) == ["job-0", "job-1", "job-2"]
    # Late results of a judged job need all executions again.
    await load_job(store, "job-1", FAILED, 24)
    assert await judged_jobs(store) == ["job-0", "job-1", "job-2"]
    assert (await detail(store, "t")).health.first_failure_at == after(hours=24)


async def test_other_branches_take_no_room(store: Store) -> None:
    for number in range(5):
        run = make_run(str(number), job=f"job-{number}", branch="topic", commit=f"c{number}")
        await load(store, run, ("t", FAILED), at=number)
    for number in range(2, 5):
        await load_job(store, f"job-{number}", PASSED, number)
    assert await judged_jobs(store) == ["job-2", "job-3", "job-4"]
    # The jobs of another default branch are the first three there.
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="topic"), NOON)
    await store.refresh_tests(NOON)
    assert await judged_jobs(store) == ["job-0", "job-1", "job-2"]
    assert (await detail(store, "t")).health.last_success_at is None


async def test_the_limit_is_logged_when_a_test_reaches_it(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        await load_job(store, f"job-{number}", PASSED, number)
    # Of the store alone: a cache that is slow for a moment warns, too.
    (line,) = [
        record
        for record in caplog.records
        if record.levelno == logging.WARNING and record.name.startswith("indexing.")
    ]
    assert "limit of pairs of pipeline and job" in line.message
    assert vars(line)["tests"] == 1
