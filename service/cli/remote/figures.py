"""`mergewatch tests groups` and `stats`: counts of tests, read from a running service."""

from __future__ import annotations

from datetime import datetime
from typing import Final, get_args

import click

from indexing.names import RepositoryName
from mergewatch.client import AsyncClient
from mergewatch.client.bodies import Stat
from mergewatch.client.filters import Grouping, StatsFilters
from service.cli.parameters import MOMENT, TEXT, repository_option
from service.cli.remote.connection import with_service
from service.cli.remote.rows import (
    DEFAULT_LIMIT,
    json_option,
    limit_option,
    say_if_more,
    show_table,
    write_json,
)

_OPTIONS: Final = {
    "by": "--by",
    "stat": "STAT",
    "start": "--from",
    "end": "--to",
    "pipeline_name": "--pipeline",
    "job_name": "--job",
    "owner": "--repository",
    "repository": "--repository",
}


@click.command()
@repository_option
@click.option("--by", type=click.Choice(get_args(Grouping)), required=True)
@limit_option
@json_option
def groups(repository: RepositoryName, by: Grouping, limit: int | None, as_json: bool) -> None:
    """Count tests by pipeline, job, directory or owner, worst first."""
    found = with_service(lambda client: client.group_tests(str(repository), by), _OPTIONS)
    if as_json:
        for group in found[:limit]:
            click.echo(write_json(group))
        return
    shown = limit or DEFAULT_LIMIT
    show_table(
        (by.upper(), "TESTS", "BROKEN", "FLAKY", "HEALTHY", "UNKNOWN", "RUNS", "FAILED"),
        [
            (
                "-" if group["value"] is None else group["value"],
                str(group["tests"]),
                str(group["broken"]),
                str(group["flaky"]),
                str(group["healthy"]),
                str(group["unknown"]),
                str(group["executions_count"]),
                str(group["failed_executions_count"]),
            )
            for group in found[:shown]
        ],
        wide=by.upper(),
    )
    say_if_more(has_more=len(found) > shown, count=shown)


@click.command()
@repository_option
@click.argument("stat", type=click.Choice(get_args(Stat)), metavar="STAT")
@click.option("--from", "start", type=MOMENT, help="Default: 30 days before the end.")
@click.option("--to", "end", type=MOMENT, help="Default: now.")
@click.option(
    "--pipeline", type=TEXT, multiple=True, metavar="NAME", help="Only of these pipelines."
)
@click.option("--job", type=TEXT, multiple=True, metavar="NAME", help="Only of these jobs.")
@json_option
def stats(
    repository: RepositoryName,
    stat: Stat,
    start: datetime | None,
    end: datetime | None,
    pipeline: tuple[str, ...],
    job: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show a figure about the tests by UTC day.

    STAT is total_tests, healthy_tests, flaky_tests, broken_tests, unknown_tests, quarantined_tests,
    executions, failed_executions, skipped_executions, flaky_verdicts or mean_duration (seconds).
    """
    filters: StatsFilters = {"pipeline_name": pipeline, "job_name": job}
    if start is not None:
        filters["start"] = start
    if end is not None:
        filters["end"] = end

    async def work(client: AsyncClient) -> None:
        series = await client.get_stats(str(repository), stat, **filters)
        if as_json:
            for bar in series["value_over_time"]:
                click.echo(write_json(bar))
            return
        days = [(bar["start"][:10], _shown(bar["value"])) for bar in series["value_over_time"]]
        show_table(("DAY", stat.upper()), [*days, ("in all", _shown(series["value"]))])

    with_service(work, _OPTIONS)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.12g}"
