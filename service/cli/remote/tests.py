"""`mergewatch tests`: search and count tests, show one and its failures; remove one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import click

from indexing.identifiers import derive_test_id
from indexing.names import RepositoryName
from mergewatch.client import AsyncClient
from mergewatch.client.bodies import Failure, FailureDetail, HealthReport, TestDetail
from service.cli.output import visible
from service.cli.parameters import TEXT, repository_option
from service.cli.remote.connection import with_service
from service.cli.remote.figures import groups, stats
from service.cli.remote.rows import (
    json_option,
    limit_option,
    print_json_rows,
    show_rows,
    show_table,
    write_json,
)
from service.cli.remote.search import search
from service.cli.removal import forget

# Of the list of failures.
_COLUMNS: Final = ("LAST", "COUNT", "TYPE", "MESSAGE", "ID")
_OPTIONS: Final = {
    "test_id": "TEST",
    "failure_id": "--failure",
    "branch": "--branch",
    "owner": "--repository",
    "repository": "--repository",
}


@click.group()
def tests() -> None:
    """Search and count tests, show one and its failures; remove one from the store.

    All but `forget` read from the service at MERGEWATCH_URL with the key in MERGEWATCH_TOKEN.
    """


tests.add_command(search)
tests.add_command(groups)
tests.add_command(stats)
tests.add_command(forget)


@tests.command()
@repository_option
@click.argument("test", type=TEXT)
@json_option
def show(repository: RepositoryName, test: str, as_json: bool) -> None:
    """Show a test, its owners, and the reasons for its health.

    TEST is its full name or its id.
    """
    test_id = _find_id(repository, test)

    async def work(client: AsyncClient) -> tuple[TestDetail, HealthReport | None]:
        detail = await client.get_test(str(repository), test_id)
        if as_json:
            return detail, None
        return detail, await client.get_test_health(str(repository), test_id, include="owners")

    detail, report = with_service(work, _OPTIONS)
    if report is None:
        click.echo(write_json(detail))
        return
    fields: list[tuple[str, object]] = [
        (name.replace("_", " "), value) for name, value in detail.items()
    ]
    _show_fields([*fields, ("owners", " ".join(report.get("owners", ())) or None)])
    for job in report["jobs"]:
        click.echo()
        click.echo(visible(f"{job['pipeline_name']} / {job['job_name']}: {job['health_status']}"))
        click.echo(visible(f"  {job['explanation']}"))


@tests.command()
@repository_option
@click.argument("test", type=TEXT)
@click.option("--branch", type=TEXT, multiple=True, metavar="NAME", help="On these branches.")
@click.option(
    "--failure", type=TEXT, metavar="ID", help="Show this failure, with its newest stack trace."
)
@limit_option
@json_option
def failures(
    repository: RepositoryName,
    test: str,
    branch: tuple[str, ...],
    failure: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List the failures of a test, latest first.

    Failures with the same type and message are listed once. TEST is the test's full name or id.
    """
    test_id = _find_id(repository, test)
    if failure is not None:
        for option, value in (("--branch", branch), ("--limit", limit)):
            if value:
                raise click.UsageError(f"{option} cannot be used with --failure.")
        detail = with_service(
            lambda client: client.get_failure(str(repository), test_id, failure), _OPTIONS
        )
        if as_json:
            click.echo(write_json(detail))
        else:
            _show_failure(detail)
        return

    async def work(client: AsyncClient) -> None:
        listed = client.list_failures(str(repository), test_id, branch=branch)
        if as_json:
            await print_json_rows(listed, limit)
        else:
            await show_rows(listed, _COLUMNS, _cells_of, limit, wide="MESSAGE")

    with_service(work, _OPTIONS)


def _find_id(repository: RepositoryName, test: str) -> uuid.UUID:
    """Return the id of a test, given as it is or derived from the name."""
    try:
        return uuid.UUID(test)
    except ValueError:
        return derive_test_id(repository, test)


def _cells_of(row: Failure) -> tuple[str, ...]:
    return (
        row["last_failure_at"],
        str(row["failure_count"]),
        row["exception_type"] or "-",
        _first_line(row["exception_message"]),
        row["id"],
    )


def _first_line(message: str | None) -> str:
    lines = (message or "").strip().splitlines()
    return lines[0] if lines else "-"


def _show_fields(fields: Sequence[tuple[str, object]]) -> None:
    width = max(len(name) for name, _ in fields)
    for name, value in fields:
        text = (
            "-" if value is None else write_json(value) if isinstance(value, dict) else str(value)
        )
        click.echo(f"{name:<{width}}  {visible(text)}")


def _show_failure(detail: FailureDetail) -> None:
    count, last = detail["failure_count"], detail["last_failure_at"]
    _show_fields(
        [
            ("type", detail["exception_type"]),
            ("failures", f"{count}, first {detail['first_failure_at']}, last {last}"),
        ]
    )
    _show_text(detail["exception_message"] or "-")
    events = detail["latest_events"]
    show_table(
        ("FAILED", "BRANCH", "COMMIT", "PIPELINE", "JOB", "RUN", "PAGE"),
        [
            (
                event["failed_at"],
                event["branch"],
                event["commit"],
                event["pipeline_name"],
                event["job_name"],
                event["run_id"],
                event["job_url"] or "-",
            )
            for event in events
        ],
        wide="PAGE",
    )
    trace = next((e["exception_stacktrace"] for e in events if e["exception_stacktrace"]), None)
    if trace is not None:
        _show_text(trace)


def _show_text(text: str) -> None:
    """Print a text of several lines; control characters other than tabs are escaped."""
    click.echo()
    for line in text.splitlines():
        click.echo(visible(line.expandtabs()))
    click.echo()
