"""`mergewatch ci junit`: loads reports as `ingest junit` does, then decides by quarantines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from indexing.clocks import utc_now
from indexing.errors import StoreUnavailableError
from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import ExecutionSink, Refusal, ReportRequest, ingest_reports
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery
from indexing.names import RepositoryName
from indexing.store.interface import Store
from mergewatch.client import AsyncClient, ClientError, ProblemError
from service.cli.ci import github
from service.cli.ci.decision import MAX_EXIT_STATUS, Decision, TestResults, decide, decide_alone
from service.cli.ci.report import print_decision
from service.cli.ci.sink import CollectingSink, ResultCollector
from service.cli.ci_job import find_ci_job, make_run
from service.cli.output import RefusalList, print_count, visible
from service.cli.parameters import FILE_PATH, STORED_NAME, optional_repository_option
from service.cli.report_options import (
    check_upload_settings,
    is_without_secret,
    make_requests,
    pop_framework_options,
    run_options,
)
from service.cli.running import with_store
from service.cli.upload import ServiceRequestError, Uploader
from service.cli.waiting import wait_aloud
from service.config.settings import Settings, load_settings

# A function that reads the quarantines of a branch, as a map from test name to reason.
ReadQuarantines = Callable[[], Awaitable[Mapping[str, str]]]

_MAX_OF_WINDOWS: Final = 2**32 - 1
_SECONDS: Final = 120
# Of these, so that the results can be stored also if the list of quarantines does not come.
_READING_SHARE: Final = 0.5
_NOT_FOUND: Final = 404
_UNKNOWN: Final = "quarantines are unknown"


@click.group()
def ci() -> None:
    """Decide in a CI job whether failed tests block it."""


@ci.command("junit")
@click.argument("paths", nargs=-1, type=FILE_PATH, metavar="PATH...")
@optional_repository_option
@click.option(
    "--target-branch",
    type=STORED_NAME,
    metavar="BRANCH",
    help="The branch whose quarantines count. Default: the base of the pull request or of"
    " the merge queue, else the branch.",
)
@click.option(
    "--test-exit-code",
    type=click.IntRange(0, _MAX_OF_WINDOWS),
    metavar="N",
    help="The exit status of the test command: a crash blocks too.",
)
@click.option(
    "--failure-exit-code",
    "failure_exit_codes",
    type=click.IntRange(1, MAX_EXIT_STATUS),
    multiple=True,
    metavar="N",
    help="With which exit status the test command says that tests failed, such as 1 for pytest."
    " With another one but 0, it has crashed. Repeatable. Default: any but 124 to 192, which"
    " shells return for a command that was ended or not found.",
)
@click.option(
    "--timeout",
    type=click.IntRange(1, 3600),
    default=_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long all requests to the service may take together.",
)
@run_options
@click.pass_context
def ci_junit(
    ctx: click.Context,
    /,
    paths: tuple[Path, ...],
    repository: RepositoryName | None,
    target_branch: str | None,
    test_exit_code: int | None,
    failure_exit_codes: tuple[int, ...],
    timeout: int,
    **options: Any,
) -> None:
    """Load JUnit XML reports, then decide about the job.

    Reports are loaded as `ingest junit` does.

    The exit status is 0 if no test failed or every failed test is quarantined on the target branch.
    It is 1 if another test failed, if there is no result, if a report cannot be read, or if the
    test command crashed. If the service or the store cannot be reached, or the service refuses the
    key, takes no uploads or takes longer than --timeout, the job keeps the result of its tests, and
    a warning is printed. So it does if MERGEWATCH_TOKEN is set but empty, and MERGEWATCH_URL is
    set, empty or not.
    """
    settings = load_settings()
    without_secret = is_without_secret(settings)
    if not without_secret:
        check_upload_settings(settings)
    framework_options = pop_framework_options(options)
    facts = find_ci_job()
    missing = () if paths else ("PATH",)
    repository, run = make_run({**options, "repository": repository}, facts, missing)
    target = target_branch or (facts.base_branch if facts else None) or run.branch
    workspace = facts.workspace if facts else None
    requests = make_requests(
        paths, repository, run, options["started_at"], framework_options, workspace
    )
    check = _JobCheck(requests, test_exit_code, failure_exit_codes)
    if without_secret:
        reason = "MERGEWATCH_TOKEN is empty, as in pull requests from forks: nothing is uploaded"
        decision = asyncio.run(check.run_alone(reason))
    elif settings.url is None or settings.token is None:
        decision = _decide_by_store(check, settings, repository, target)
    else:
        click.echo(f"uploading to {settings.url}", err=True)
        decision = asyncio.run(
            _run_remotely(check, settings.url, settings.token, repository, target, timeout)
        )
    in_github = os.environ.get("GITHUB_ACTIONS") == "true"
    with github.commands_stopped(enabled=in_github):
        print_decision(decision, target)
    if in_github:
        github.annotate(decision, target)
        github.write_summary(decision, target, os.environ.get("GITHUB_STEP_SUMMARY"))
    ctx.exit(decision.exit_status)


class _JobCheck:
    """One run of the command: loads the reports, then decides."""

    def __init__(
        self,
        requests: Sequence[ReportRequest],
        test_exit_code: int | None,
        failure_exit_codes: Sequence[int],
    ) -> None:
        self.refusals = RefusalList()
        self._requests = requests
        self._test_exit_code = test_exit_code
        self._failure_exit_codes = failure_exit_codes

    async def run(
        self,
        sink: ExecutionSink,
        read_quarantines: ReadQuarantines,
        seconds: float | None = None,
    ) -> Decision:
        collecting = CollectingSink(sink, seconds)
        # Before the results are stored, because they can begin an automatic quarantine: a job must
        # not excuse its own failures.
        excused = await collecting.attempt(read_quarantines(), _READING_SHARE)
        # Results are stored also if the list cannot be read.
        unread = collecting.take_failure()
        count = await self._load(collecting)
        if collecting.failure is None:
            print_count(count)
        if excused is None or collecting.failure is not None:
            reasons = dict.fromkeys(filter(None, (unread, collecting.failure)))
            lacking = _UNKNOWN if excused is None else "the results are not stored"
            return self._decide_alone(collecting.results, reasons, lacking)
        return decide(collecting.results, excused, self._test_exit_code, self._failure_exit_codes)

    async def run_alone(self, reason: str) -> Decision:
        """Read the reports and decide without a service, for this reason."""
        collector = ResultCollector()
        await self._load(collector)
        return self._decide_alone(collector.results, (reason,), _UNKNOWN)

    def _decide_alone(self, results: TestResults, reasons: Iterable[str], lacking: str) -> Decision:
        for reason in reasons:
            click.echo(f"warning: {visible(reason)}", err=True)
        click.echo(f"warning: {lacking}, so the tests decide alone", err=True)
        return decide_alone(results, self._test_exit_code)

    async def _load(self, sink: ResultCollector) -> IngestCount:
        def refuse(refusal: Refusal) -> None:
            sink.results.unreadable += 1
            self.refusals.show(str(refusal))

        try:
            return await ingest_reports(sink, self._requests, refuse=refuse, clock=utc_now)
        finally:
            self.refusals.close()


def _decide_by_store(
    check: _JobCheck,
    settings: Settings,
    repository: RepositoryName,
    target: str,
) -> Decision:
    try:
        return with_store(
            # A store has timeouts of its own, and may take long for a large report.
            lambda store: check.run(store, lambda: _read_stored(store, repository, target)),
            settings,
        )
    except StoreUnavailableError as error:
        # It cannot be opened; `check` handles what fails later.
        return asyncio.run(check.run_alone(f"the store is unavailable: {error}"))


async def _run_remotely(
    check: _JobCheck, url: str, token: str, repository: RepositoryName, target: str, seconds: float
) -> Decision:
    async with AsyncClient(url, token, sleep=wait_aloud) as client:

        async def read() -> Mapping[str, str]:
            try:
                rows = client.list_quarantines(str(repository), branch=target)
                return {row["test_name"]: row["reason"] async for row in rows}
            except ProblemError as error:
                if error.status == _NOT_FOUND:
                    # The first results make a repository known.
                    return {}
                raise ServiceRequestError(str(error)) from None
            except ClientError as error:
                raise ServiceRequestError(str(error)) from None

        return await check.run(Uploader(client, url, check.refusals.show), read, seconds)


async def _read_stored(store: Store, repository: RepositoryName, target: str) -> Mapping[str, str]:
    query = QuarantineQuery(repository, branch=target, now=utc_now())
    page = await store.list_quarantines(query, Anchor(), None)
    return {row.test_name: row.reason for row in page.rows}
