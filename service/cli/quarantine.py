"""`mergewatch quarantine`: manual quarantines."""

from __future__ import annotations

import uuid
from datetime import datetime

import click

from indexing.identifiers import derive_test_id
from indexing.models.paging import Anchor
from indexing.models.quarantines import Quarantine, QuarantineQuery, QuarantineRequest
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.cli.output import format_moment, print_table, visible, warn_if_past
from service.cli.parameters import MOMENT, STORED_NAME, TEXT, repository_option
from service.cli.running import now, with_store


@click.group()
def quarantine() -> None:
    """Add, remove and list quarantined tests."""


@quarantine.command()
@repository_option
@click.option("--test", type=STORED_NAME, required=True, help="The full name of the test.")
@click.option("--reason", type=TEXT, required=True)
@click.option(
    "--branch", type=STORED_NAME, help="A branch or a glob pattern; default: every branch."
)
@click.option("--owner", type=TEXT, help="Who is responsible for fixing the test.")
@click.option("--expires", type=MOMENT, help="A date, or a time with a UTC offset.")
def add(
    repository: RepositoryName,
    test: str,
    reason: str,
    branch: str | None,
    owner: str | None,
    expires: datetime | None,
) -> None:
    """Quarantine a test and print only the id of the record on standard output."""
    request = QuarantineRequest(
        test_name=test, reason=reason, branch=branch, owner=owner, expires_at=expires
    )

    async def quarantine_test(store: Store) -> tuple[Quarantine, bool]:
        added = await store.add_quarantine(repository, request, now())
        detail = await store.get_test(repository, derive_test_id(repository, test))
        return added, detail is not None

    added, is_known = with_store(quarantine_test)
    if not is_known:
        click.echo(
            f"warning: {repository} has no results of the test {visible(test)}:"
            " check the spelling of its name",
            err=True,
        )
    warn_if_past(expires, now())
    click.echo(str(added.key.id))


@quarantine.command()
@repository_option
@click.argument("quarantine_id", metavar="ID", type=click.UUID)
def remove(repository: RepositoryName, quarantine_id: uuid.UUID) -> None:
    """Remove a quarantine."""

    async def end(store: Store) -> bool:
        return await store.remove_quarantine(repository, quarantine_id, now())

    if not with_store(end):
        raise click.ClickException(f"{repository} has no quarantine {quarantine_id}")
    click.echo(f"removed {quarantine_id}", err=True)


@quarantine.command("list")
@repository_option
def list_quarantines(repository: RepositoryName) -> None:
    """List the active quarantines, oldest first."""

    async def read(store: Store) -> tuple[Quarantine, ...]:
        if await store.find_repository(repository) is None:
            raise click.ClickException(f"the repository {repository} is not known")
        page = await store.list_quarantines(QuarantineQuery(repository, now()), Anchor(), None)
        return page.rows

    print_table(
        ("ID", "TEST", "BRANCH", "SOURCE", "CREATED", "EXPIRES", "RECOVERED", "OWNER", "REASON"),
        (
            (
                str(row.key.id),
                row.test_name,
                "(all)" if row.branch is None else row.branch,
                row.source.value,
                format_moment(row.key.created_at),
                format_moment(row.expires_at),
                "yes" if row.is_recovered else "no",
                row.owner or "-",
                row.reason,
            )
            for row in with_store(read)
        ),
    )
