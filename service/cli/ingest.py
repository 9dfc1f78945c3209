"""`mergewatch ingest`: files into the store. What is in them is read by `indexing.ingest`."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from indexing.ingest.counts import IngestCount
from indexing.ingest.dead_letter import DeadLetterFile, RefusedLine
from indexing.ingest.events import ingest_events
from indexing.ingest.junit import Refusal, ReportRequest, ingest_reports
from indexing.ingest.manifest import read_manifest
from indexing.ingest.sources import Source, SourceError, open_source
from indexing.models.executions import MAX_ATTEMPT, PullRequest, Run
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.cli.output import RefusalList, print_count, progress_meter
from service.cli.parameters import MOMENT, PULL_REQUEST, STORED_NAME, TEXT, repository_option
from service.cli.running import now, with_store

# What a manifest says for each report, and the command line for all of them.
_RUN_OPTIONS = ("branch", "commit", "pipeline", "job", "run_id")


@click.group()
def ingest() -> None:
    """Load events and test reports; loading the same again changes nothing."""


@ingest.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--dead-letter",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where refused lines go, with the reason for each.",
)
@click.pass_context
def events(ctx: click.Context, files: tuple[str, ...], dead_letter: Path | None) -> None:
    """Load events from NDJSON files: plain, .gz or .zst; - is standard input."""
    count = with_store(lambda store: _load_events(store, files, dead_letter))
    _finish(ctx, count)


async def _load_events(
    store: Store, files: tuple[str, ...], dead_letter: Path | None
) -> IngestCount:
    total = IngestCount()
    refusals = RefusalList()
    with ExitStack() as stack:
        stack.callback(refusals.close)
        kept = stack.enter_context(DeadLetterFile(dead_letter, files)) if dead_letter else None

        def refuse(line: RefusedLine) -> None:
            refusals.show(str(line))
            if kept is not None:
                kept.write(line)

        for file in files:
            try:
                with open_source(file) as source:
                    total += await _load_source(store, source, refuse)
            except SourceError as error:
                refusals.show(str(error))
                total += IngestCount(read=1, refused=1)
    return total


async def _load_source(store: Store, source: Source, refuse: Any) -> IngestCount:
    with progress_meter(source.name, "bytes") as meter:

        def show(*, lines: int, offset: int) -> None:  # noqa: ARG001 - the protocol names both
            meter(source.bytes_read, source.size)

        return await ingest_events(
            store, source.lines(), source=source.name, refuse=refuse, progress=show
        )


@ingest.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="PATH...")
@repository_option
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="A CSV that names the reports and says of each what the options say of all.",
)
@click.option("--branch", type=STORED_NAME)
@click.option("--commit", type=STORED_NAME, metavar="SHA")
@click.option("--pipeline", type=STORED_NAME)
@click.option("--job", type=STORED_NAME)
@click.option("--run-id", type=STORED_NAME, metavar="ID")
@click.option("--attempt", type=click.IntRange(1, MAX_ATTEMPT), help="1 when not given.")
@click.option("--started-at", type=MOMENT, help="The time of all results.")
@click.option(
    "--pull-request",
    type=PULL_REQUEST,
    metavar="NUMBER|FILE",
    help="Its number, or the file that the CI describes its event in.",
)
@click.option("--framework", type=TEXT)
@click.option("--framework-version", type=TEXT)
@click.option("--language", type=TEXT)
@click.pass_context
def junit(
    ctx: click.Context,
    /,
    paths: tuple[Path, ...],
    repository: RepositoryName,
    manifest: Path | None,
    framework: str | None,
    framework_version: str | None,
    language: str | None,
    **of_run: Any,
) -> None:
    """Load JUnit XML reports: files, .gz too, and folders of them."""
    about_tests = {
        "framework": framework,
        "framework_version": framework_version,
        "language": language,
    }
    if manifest is not None:
        _refuse_options_beside_a_manifest(paths, of_run)
        requests = list(read_manifest(manifest, repository, **about_tests))
    else:
        run = _make_run(paths, of_run)
        started_at: datetime | None = of_run["started_at"]
        requests = [
            ReportRequest(path, repository, run, started_at=started_at, **about_tests)
            for path in paths
        ]
    count = with_store(lambda store: _load_reports(store, requests, repository))
    _finish(ctx, count)


async def _load_reports(
    store: Store, requests: list[ReportRequest | Refusal], repository: RepositoryName
) -> IngestCount:
    refusals = RefusalList()

    def refuse(refusal: Refusal) -> None:
        where = refusal.file + ("" if refusal.line is None else f", line {refusal.line}")
        refusals.show(f"{where}: {refusal.reason}")

    with ExitStack() as stack:
        stack.callback(refusals.close)
        meter = stack.enter_context(progress_meter(str(repository), "reports"))
        return await ingest_reports(store, requests, refuse=refuse, clock=now, progress=meter)


def _make_run(paths: tuple[Path, ...], of_run: dict[str, Any]) -> Run:
    missing = [_option(name) for name in _RUN_OPTIONS if of_run[name] is None]
    if not paths:
        missing.insert(0, "PATH (or --manifest)")
    if missing:
        raise click.UsageError(f"Missing {', '.join(missing)}.")
    pull: tuple[int | None, PullRequest | None] = of_run["pull_request"] or (None, None)
    return Run(
        run_id=of_run["run_id"],
        attempt=of_run["attempt"] or 1,
        pipeline_name=of_run["pipeline"],
        job_name=of_run["job"],
        branch=of_run["branch"],
        commit=of_run["commit"],
        pull_number=pull[0],
        pull=pull[1],
    )


def _refuse_options_beside_a_manifest(paths: tuple[Path, ...], of_run: dict[str, Any]) -> None:
    given = [_option(name) for name, value in of_run.items() if value is not None]
    if paths:
        given.insert(0, "PATH")
    if given:
        raise click.UsageError(
            f"The manifest says this: {', '.join(given)} cannot stand beside it."
        )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _finish(ctx: click.Context, count: IngestCount) -> None:
    print_count(count)
    if count.refused:
        ctx.exit(1)
