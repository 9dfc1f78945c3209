"""`mergewatch repository health`: the repositories of an owner and the health of their tests."""

from __future__ import annotations

from typing import Final, Literal

import click

from indexing.errors import InvalidValueError
from indexing.names import check_owner
from mergewatch.client import AsyncClient
from mergewatch.client.bodies import Repository
from service.cli.remote.connection import with_service
from service.cli.remote.rows import json_option, limit_option, print_json_rows, show_rows

_COLUMNS: Final = (
    "REPOSITORY",
    "BROKEN",
    "FLAKY",
    "UNKNOWN",
    "HEALTHY",
    "QUARANTINED",
    "LAST REPORT",
)
_OPTIONS: Final = {"owner": "OWNER", "sort": "--sort"}


@click.command()
@click.argument("owner")
@click.option("--sort", type=click.Choice(["worst", "name"]), default="worst", show_default=True)
@limit_option
@json_option
def health(owner: str, sort: Literal["worst", "name"], limit: int | None, as_json: bool) -> None:
    """List repositories with the health of their tests, worst first.

    It reads from the service at MERGEWATCH_URL with the key in MERGEWATCH_TOKEN.
    """
    try:
        check_owner(owner)
    except InvalidValueError as error:
        raise click.BadParameter(str(error), param_hint="OWNER") from error

    async def work(client: AsyncClient) -> None:
        found = client.list_repositories(owner, sort=sort)
        if as_json:
            await print_json_rows(found, limit)
        else:
            await show_rows(found, _COLUMNS, _cells_of, limit, wide="REPOSITORY")

    with_service(work, _OPTIONS)


def _cells_of(row: Repository) -> tuple[str, ...]:
    tests = row["tests"]
    counts = (tests["broken"], tests["flaky"], tests["unknown"], tests["healthy"])
    return (
        row["repository"],
        *(str(count) for count in (*counts, row["quarantined_tests"])),
        row["last_execution_at"] or "-",
    )
