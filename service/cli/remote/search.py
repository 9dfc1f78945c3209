"""`mergewatch tests search`: the test search of a running service, with all its filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

import click

from indexing.names import RepositoryName
from mergewatch.client import AsyncClient
from mergewatch.client.bodies import HealthStatus, TestIdentity
from mergewatch.client.filters import Direction, TestSelection, TestSort
from service.cli.parameters import TEXT, repository_option
from service.cli.remote.connection import with_service
from service.cli.remote.rows import json_option, limit_option, print_json_rows, show_rows

_NAMES: Final = ("TEST", "PIPELINE", "JOB")
# These columns fit beside the names on a terminal of 80 columns; --json prints all metrics.
_METRICS: Final = ("HEALTH", "RUNS", "FAILED", "FLAKY", "FAILED ON")
_DATE: Final = len("2026-01-31")
_OPTIONS: Final = {
    "test_name": "GLOB",
    "test_name_exclude": "--exclude",
    "test_filepath": "--file",
    "pipeline_name": "--pipeline",
    "pipeline_name_exclude": "--not-pipeline",
    "job_name": "--job",
    "job_name_exclude": "--not-job",
    "health_status": "--health",
    "health_status_exclude": "--exclude-health",
    "owner": "--owner",
    "path.owner": "--repository",
    "repository_name": "--repository",
}
_HEALTH: Final = click.Choice(get_args(HealthStatus))


@click.command()
@repository_option
@click.argument("globs", type=TEXT, metavar="[GLOB]...", nargs=-1)
@click.option("--exclude", type=TEXT, multiple=True, metavar="GLOB", help="Not these names.")
@click.option("--file", type=TEXT, multiple=True, metavar="GLOB", help="Only tests in these files.")
@click.option(
    "--owner", type=TEXT, multiple=True, help="Only of this owner; none: tests without an owner."
)
@click.option(
    "--pipeline", type=TEXT, multiple=True, metavar="NAME", help="Only of these pipelines."
)
@click.option(
    "--not-pipeline", type=TEXT, multiple=True, metavar="NAME", help="Not of these pipelines."
)
@click.option("--job", type=TEXT, multiple=True, metavar="NAME", help="Only of these jobs.")
@click.option("--not-job", type=TEXT, multiple=True, metavar="NAME", help="Not of these jobs.")
@click.option("--health", type=_HEALTH, multiple=True, help="Only with this health.")
@click.option("--exclude-health", type=_HEALTH, multiple=True, help="Not with this health.")
@click.option(
    "--quarantined/--not-quarantined", default=None, help="Only quarantined tests, or no such test."
)
@click.option(
    "--sort",
    type=click.Choice(get_args(TestSort)),
    default="executions_count",
    show_default=True,
)
@click.option(
    "--direction", type=click.Choice(get_args(Direction)), default="desc", show_default=True
)
@click.option("--metrics", is_flag=True, help="Show health, runs and failures of each row.")
@click.option("--total", is_flag=True, help="Print on standard error how many rows match.")
@limit_option
@json_option
def search(
    repository: RepositoryName,
    globs: tuple[str, ...],
    exclude: tuple[str, ...],
    file: tuple[str, ...],
    owner: tuple[str, ...],
    pipeline: tuple[str, ...],
    not_pipeline: tuple[str, ...],
    job: tuple[str, ...],
    not_job: tuple[str, ...],
    health: tuple[HealthStatus, ...],
    exclude_health: tuple[HealthStatus, ...],
    quarantined: bool | None,
    sort: TestSort,
    direction: Direction,
    metrics: bool,
    total: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """List tests by name: a row for each pipeline and job.

    A glob with * and ? must match the whole name. Without a glob, all tests are listed.
    """
    names = globs or "*"
    filters: TestSelection = {
        "test_name_exclude": exclude,
        "test_filepath": file,
        "owner": owner,
        "pipeline_name": pipeline,
        "pipeline_name_exclude": not_pipeline,
        "job_name": job,
        "job_name_exclude": not_job,
        "health_status": health,
        "health_status_exclude": exclude_health,
        "sort": sort,
        "direction": direction,
    }
    if quarantined is not None:
        filters["quarantined"] = quarantined
    if metrics:
        filters["include"] = "metrics"

    async def work(client: AsyncClient) -> None:
        if as_json:
            exported = client.export_tests(str(repository), names, **filters)
            await print_json_rows(exported, limit)
        else:
            found = client.search_tests(str(repository), names, **filters)
            if metrics:
                columns = (*_NAMES, *_METRICS)
                await show_rows(found, columns, _names_and_metrics_of, limit, wide="TEST")
            else:
                await show_rows(found, _NAMES, _names_of, limit, wide="TEST")
        if total:
            _print_total(await client.count_tests(str(repository), names, **filters))

    with_service(work, _OPTIONS)


def _names_of(row: TestIdentity) -> tuple[str, ...]:
    return row["test_name"], row["pipeline_name"], row["job_name"]


def _names_and_metrics_of(row: TestIdentity) -> tuple[str, ...]:
    return (*_names_of(row), *_metrics_of(row))


def _metrics_of(row: TestIdentity) -> tuple[str, ...]:
    if "metrics" not in row:
        # An older service ignores `include`.
        return ("-",) * len(_METRICS)
    metrics = row["metrics"]
    return (
        metrics["health_status"],
        str(metrics["executions_count"]),
        str(metrics["failed_executions_count"]),
        f"{metrics['flakiness_ratio']:.0%}",
        (metrics["last_failure_at"] or "-")[:_DATE],
    )


def _print_total(found: Mapping[str, object]) -> None:
    if "total" not in found:
        # An older service ignores `include`.
        click.echo("the service is too old to count the rows that match", err=True)
        return
    more = "" if found["total_is_exact"] else "more than "
    rows = "row matches" if found["total"] == 1 else "rows match"
    click.echo(f"{more}{found['total']:,} {rows}", err=True)
