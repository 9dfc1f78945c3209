"""Why a test is healthy, flaky or broken, on any store: each sequence with its rule."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.health_reports import HealthReport, ReportedVerdict
from indexing.models.paging import Anchor
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import HealthStatus, TestQuery
from indexing.store.interface import Store
from tests.builders import (
    FOREIGN,
    NOON,
    WIDGETS,
    after,
    load_history,
    load_names,
    make_executions,
    make_run,
)

HINGE = derive_test_id(WIDGETS, "hinge")
P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


async def read(store: Store) -> HealthReport:
    found = await store.get_health(WIDGETS, HINGE)
    assert found is not None
    return found


async def load(store: Store) -> None:
    await load_history(store, "hinge", "linux", [P, P, F, P], duration=0.5)
    await load_history(store, "hinge", "windows", [P, F, F, F], duration=1.25)
    await load_history(store, "hinge", "mac", [P, F, P, F, P])
    await load_history(store, "hinge", "silent", [F, F], end=-20)
    await load_history(store, "hinge", "never", [S])
    await store.refresh_tests(NOON)


async def test_each_sequence_has_its_rule_worst_first(store: Store) -> None:
    await load(store)
    report = await read(store)
    assert report.health_status is HealthStatus.BROKEN
    assert [(job.job_name, job.health_status.value, job.rule) for job in report.jobs] == [
        ("windows", "broken", "failing_now"),
        ("mac", "flaky", "repeated_falls"),
        ("never", "unknown", "no_evidence"),
        ("silent", "unknown", "not_live"),
        ("linux", "healthy", "steady"),
    ]
    assert all(job.explanation.endswith(".") for job in report.jobs)
    windows = report.jobs[0]
    assert windows.verdicts[-1] == ReportedVerdict("failed", "c00", NOON, NOON)
    assert [verdict.commit for verdict in windows.verdicts] == ["c03", "c02", "c01", "c00"]


async def test_a_report_agrees_with_the_detail_and_the_rows_of_the_search(store: Store) -> None:
    await load(store)
    report = await read(store)
    page = await store.search_tests(TestQuery(WIDGETS, ("hinge",)), Anchor(), 10)
    assert {job.job_name: job.executions_count for job in report.jobs} == {
        row.key.job_name: row.key.executions_count for row in page.rows
    }
    figures = {
        job.job_name: (job.failed_executions_count, job.mean_duration, job.last_execution_at)
        for job in report.jobs
    }
    assert figures["linux"] == (1, 0.5, NOON)
    assert figures["windows"] == (3, 1.25, NOON)
    assert figures["silent"] == (2, None, after(days=-20))
    assert figures["never"] == (0, None, NOON)
    detail = await store.get_test(WIDGETS, HINGE)
    assert detail is not None
    assert report.health_status is detail.health.health_status


async def test_a_commit_that_runs_every_night_is_one_verdict_of_the_window(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    for day in range(-40, 1):
        run = make_run(str(day), commit="same")
        executions = make_executions(run, [("hinge", P)], after(days=day))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    (job,) = (await read(store)).jobs
    assert job.executions_count == 30
    assert job.verdicts == (ReportedVerdict("passed", "same", after(days=-29), NOON),)


async def test_a_commit_that_ran_twice_is_one_verdict(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    for number, conclusion in enumerate([F, P]):
        run = make_run(str(number), commit="same")
        executions = make_executions(run, [("hinge", conclusion)], after(hours=number))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    (job,) = (await read(store)).jobs
    assert job.verdicts == (ReportedVerdict("flaky", "same", NOON, after(hours=1)),)
    assert (job.health_status, job.rule) == (HealthStatus.FLAKY, "flaky_verdict")
    await store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    (job,) = (await read(store)).jobs
    assert (job.health_status, job.rule) == (HealthStatus.HEALTHY, "detection_off")


async def test_only_the_newest_verdicts_are_reported(store: Store) -> None:
    await load_history(store, "hinge", "unit", [P] * 25)
    await store.refresh_tests(NOON)
    (job,) = (await read(store)).jobs
    assert len(job.verdicts) == 20
    assert job.executions_count == 25


async def test_what_has_no_sequence_has_no_jobs(store: Store) -> None:
    await load_names(store, ["hinge"], make_run(branch="topic"))
    assert await read(store) == HealthReport(HealthStatus.UNKNOWN, (), 0)


async def test_a_test_of_another_repository_and_an_unknown_one_have_no_report(
    store: Store,
) -> None:
    await load(store)
    await store.ensure_repository(FOREIGN)
    assert await store.get_health(FOREIGN, HINGE) is None
    assert await store.get_health(WIDGETS, derive_test_id(WIDGETS, "never seen")) is None


@pytest.mark.parametrize(("jobs", "size", "shown"), [(250, 10, 200), (70, 8_000, 62)])
async def test_of_many_jobs_the_worst_are_reported(
    store: Store, jobs: int, size: int, shown: int
) -> None:
    """Names of one repository delay no answer to another."""
    await store.ensure_repository(WIDGETS)
    names = [f"{number:03}".rjust(size, "x") for number in range(jobs)]
    written = {}
    for name in names:
        # The last one alone is broken.
        conclusion = F if name == names[-1] else P
        run = make_run("1", pipeline="p", job=name, commit="c")
        written[run] = make_executions(run, [("hinge", conclusion)])
    await store.write_results(WIDGETS, written)
    await store.refresh_tests(NOON)
    report = await read(store)
    assert (report.health_status, report.jobs_count) == (HealthStatus.BROKEN, jobs)
    assert [job.job_name for job in report.jobs] == [names[-1], *names[: shown - 1]]


@pytest.mark.parametrize("at_once", [True, False], ids=["one load", "a load a run"])
async def test_a_verdict_that_is_no_longer_kept_ends_with_its_last_execution(
    store: Store, at_once: bool
) -> None:
    await store.ensure_repository(WIDGETS)
    moments = [(-30, "old"), *((-29 + n / 20, f"a{n}") for n in range(10)), (-25, "old")]
    moments += [*((-24 + n, f"b{n}") for n in range(14)), (-0.3, "old"), (-0.2, "old"), (0, "old")]
    written = {}
    for days, commit in moments:
        run = make_run(f"{commit} {days}", commit=commit)
        written[run] = make_executions(run, [("hinge", P)], after(days=days))
    for load in [written] if at_once else [{run: written[run]} for run in written]:
        await store.write_results(WIDGETS, load)
        await store.refresh_tests(NOON)
    (job,) = (await read(store)).jobs
    (old,) = (verdict for verdict in job.verdicts if verdict.commit == "old")
    assert (old.first_execution_at, old.last_execution_at) == (after(days=-25), NOON)
