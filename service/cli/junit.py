"""`mergewatch ingest junit`: loads reports into the store, or uploads them to a service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from indexing.clocks import utc_now
from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import (
    ExecutionSink,
    Refusal,
    ReportProgress,
    ReportRequest,
    ingest_reports,
)
from indexing.ingest.manifest import read_manifest
from indexing.names import RepositoryName
from indexing.store.interface import Steps
from service.cli.ci_job import choose_repository, find_ci_job, make_run, option_of
from service.cli.output import RefusalList, finish_ingest, judging_steps, progress_meters
from service.cli.parameters import FILE_PATH, optional_repository_option
from service.cli.report_options import (
    check_upload_settings,
    make_requests,
    pop_framework_options,
    run_options,
)
from service.cli.running import with_store
from service.cli.upload import open_upload
from service.cli.waiting import wait_aloud
from service.config.settings import Settings, load_settings


@click.command()
@click.argument("paths", nargs=-1, type=FILE_PATH, metavar="PATH...")
@optional_repository_option
@click.option(
    "--manifest",
    type=FILE_PATH,
    help="A CSV file that lists reports and their runs, instead of options.",
)
@run_options
@click.pass_context
def junit(
    ctx: click.Context,
    /,
    paths: tuple[Path, ...],
    repository: RepositoryName | None,
    manifest: Path | None,
    **options: Any,
) -> None:
    """Load JUnit XML reports: files, .gz files, or folders of them.

    On GitHub Actions, GitLab CI, Jenkins, CircleCI and Buildkite, omitted options default to
    the environment of the job. If MERGEWATCH_URL and MERGEWATCH_TOKEN are set, the results are
    uploaded to that service and no local store is opened.
    """
    settings = load_settings()
    check_upload_settings(settings)
    framework_options = pop_framework_options(options)
    facts = find_ci_job()
    workspace = facts.workspace if facts else None
    requests: Sequence[ReportRequest | Refusal]
    if manifest is not None:
        _check_no_run_options(paths, options)
        repository = choose_repository(repository, facts)
        requests = list(
            read_manifest(
                manifest, repository, clock=utc_now, workspace=workspace, **framework_options
            )
        )
    else:
        missing = () if paths else ("PATH (or --manifest)",)
        repository, run = make_run({**options, "repository": repository}, facts, missing)
        requests = make_requests(
            paths, repository, run, options["started_at"], framework_options, workspace
        )
    finish_ingest(ctx, _load(settings, requests, str(repository)))


@dataclass(frozen=True, slots=True)
class _Display:
    """Where a load reports refusals and progress."""

    refusals: RefusalList
    reports: ReportProgress
    judged: Steps


def _load(
    settings: Settings, requests: Sequence[ReportRequest | Refusal], label: str
) -> IngestCount:
    refusals = RefusalList()
    with ExitStack() as stack:
        stack.callback(refusals.close)
        meters = stack.enter_context(progress_meters())
        display = _Display(refusals, meters(label, "reports"), judging_steps(meters))
        if settings.url is None or settings.token is None:
            return with_store(lambda store: _ingest(store, requests, display), settings)
        return asyncio.run(_upload(settings.url, settings.token, requests, display))


async def _upload(
    url: str, token: str, requests: Sequence[ReportRequest | Refusal], display: _Display
) -> IngestCount:
    click.echo(f"uploading to {url}", err=True)
    refuse = display.refusals.show
    async with open_upload(url, token, refuse=refuse, sleep=wait_aloud) as sink:
        return await _ingest(sink, requests, display)


async def _ingest(
    sink: ExecutionSink, requests: Sequence[ReportRequest | Refusal], display: _Display
) -> IngestCount:
    def refuse(refusal: Refusal) -> None:
        display.refusals.show(str(refusal))

    return await ingest_reports(
        sink,
        requests,
        refuse=refuse,
        clock=utc_now,
        progress=display.reports,
        judged=display.judged,
    )


def _check_no_run_options(paths: tuple[Path, ...], options: dict[str, Any]) -> None:
    given = [option_of(name) for name, value in options.items() if value is not None]
    if paths:
        given.insert(0, "PATH")
    if given:
        raise click.UsageError(f"--manifest cannot be combined with {', '.join(given)}.")
