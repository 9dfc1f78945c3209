"""`mergewatch quarantine`: manual quarantines."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from datetime import datetime
from functools import partial

import click

from indexing.clocks import utc_now
from indexing.concurrent_works import run_some_at_once
from indexing.globs import matches
from indexing.identifiers import derive_test_id
from indexing.models.paging import Anchor
from indexing.models.quarantines import (
    Quarantine,
    QuarantineChange,
    QuarantineQuery,
    QuarantineRequest,
)
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.cli.bulk import confirm_names, find_tests, find_user, read_glob
from service.cli.output import format_moment, print_table, visible, warn_if_past
from service.cli.parameters import (
    BRANCH_GLOB,
    MOMENT,
    QUARANTINE_OWNER,
    REASON,
    STORED_NAME,
    repository_option,
)
from service.cli.running import require_repository, with_existing_store, with_store


@click.group()
def quarantine() -> None:
    """Add, remove and list quarantined tests."""


@quarantine.command()
@repository_option
@click.option("--test", type=STORED_NAME, help="The full name of the test.")
@click.option("--test-glob", metavar="GLOB", help="All tests whose name matches; * and ?.")
@click.option("--reason", type=REASON, required=True)
@click.option(
    "--branch", type=BRANCH_GLOB, help="A branch or a glob pattern; default: every branch."
)
@click.option("--owner", type=QUARANTINE_OWNER, help="Who is responsible for fixing the test.")
@click.option("--expires", type=MOMENT, help="A date, or a time with a UTC offset.")
@click.option("--yes", is_flag=True, help="With --test-glob: do not ask for confirmation.")
def add(
    repository: RepositoryName,
    test: str | None,
    test_glob: str | None,
    reason: str,
    branch: str | None,
    owner: str | None,
    expires: datetime | None,
    yes: bool,
) -> None:
    """Quarantine a test, or all tests that match.

    The ids of the quarantines are printed on standard output, and nothing else.
    """
    if (test is None) == (test_glob is None):
        raise click.UsageError("Give either --test or --test-glob.")

    make_request = partial(
        QuarantineRequest,
        reason=reason,
        branch=branch,
        owner=owner,
        expires_at=expires,
        actor=find_user(),
    )
    warn_if_past(expires, utc_now())
    if test is not None:
        _add_one(repository, make_request(test))
        return
    glob = read_glob(test_glob or "")
    names = with_existing_store(partial(find_tests, repository=repository, glob=glob))
    confirm_names("quarantine", names, "test", yes=yes)

    async def add_all(store: Store) -> None:
        for name in names:
            added = await store.add_quarantine(repository, make_request(name), utc_now())
            # At once: if a later one fails, this one exists.
            click.echo(str(added.quarantine.key.id))

    with_store(add_all)


def _add_one(repository: RepositoryName, request: QuarantineRequest) -> None:
    async def quarantine_test(store: Store) -> tuple[Quarantine, bool]:
        added, _ = await store.add_quarantine(repository, request, utc_now())
        test_id = derive_test_id(repository, request.test_name)
        return added, await store.get_test(repository, test_id) is not None

    added, is_known = with_store(quarantine_test)
    if not is_known:
        click.echo(
            f"warning: {repository} has no results of the test {visible(request.test_name)}:"
            " check the spelling of its name",
            err=True,
        )
    click.echo(str(added.key.id))


@quarantine.command()
@repository_option
@click.argument("quarantine_id", metavar="[ID]", type=click.UUID, required=False)
@click.option("--test-glob", metavar="GLOB", help="All quarantines of tests that match.")
@click.option("--yes", is_flag=True, help="With --test-glob: do not ask for confirmation.")
def remove(
    repository: RepositoryName, quarantine_id: uuid.UUID | None, test_glob: str | None, yes: bool
) -> None:
    """Remove a quarantine, or those of all tests that match."""
    if (quarantine_id is None) == (test_glob is None):
        raise click.UsageError("Give either an ID or --test-glob.")
    chosen: list[uuid.UUID]
    if quarantine_id is not None:
        chosen = [quarantine_id]
    else:
        pattern = read_glob(test_glob or "")
        found = with_existing_store(partial(_read_all, repository=repository))
        rows = [row for row in found if matches(pattern, row.test_name)]
        confirm_names("end", [row.test_name for row in rows], "quarantine", yes=yes)
        chosen = [row.key.id for row in rows]

    async def end_one(store: Store, each: uuid.UUID) -> tuple[uuid.UUID, bool]:
        return each, await store.remove_quarantine(repository, each, utc_now(), find_user())

    async def end(store: Store) -> None:
        works = (partial(end_one, store, each) for each in chosen)
        async with aclosing(run_some_at_once(works)) as outcomes:
            async for each, was_in_force in outcomes:
                if was_in_force:
                    # At once: if a later one fails, this one is removed.
                    click.echo(f"removed {each}", err=True)
                elif each == quarantine_id:
                    raise click.ClickException(f"{repository} has no quarantine {quarantine_id}")

    with_existing_store(end)


async def _read_all(store: Store, *, repository: RepositoryName) -> tuple[Quarantine, ...]:
    await require_repository(store, repository)
    page = await store.list_quarantines(QuarantineQuery(repository, utc_now()), Anchor(), None)
    return page.rows


@quarantine.command()
@repository_option
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
def changes(repository: RepositoryName, limit: int) -> None:
    """List who added, changed and ended quarantines, newest first."""

    async def read(store: Store) -> tuple[QuarantineChange, ...]:
        await require_repository(store, repository)
        page = await store.list_quarantine_changes(repository, utc_now(), Anchor(), limit)
        return page.rows

    print_table(
        ("AT", "ACTION", "TEST", "BRANCH", "BY", "ID", "REASON"),
        (
            (
                format_moment(row.key.at),
                row.action.value,
                row.test_name,
                _show_branch(row.branch),
                "-" if row.actor is None else f"{row.actor.name} ({row.actor.kind.value})",
                str(row.quarantine_id),
                row.reason,
            )
            for row in with_existing_store(read)
        ),
    )


@quarantine.command("list")
@repository_option
def list_quarantines(repository: RepositoryName) -> None:
    """List the quarantines in force, oldest first."""
    print_table(
        ("ID", "TEST", "BRANCH", "SOURCE", "CREATED", "EXPIRES", "RECOVERED", "OWNER", "REASON"),
        (
            (
                str(row.key.id),
                row.test_name,
                _show_branch(row.branch),
                row.source.value,
                format_moment(row.key.created_at),
                format_moment(row.expires_at),
                "yes" if row.is_recovered else "no",
                row.owner or "-",
                row.reason,
            )
            for row in with_existing_store(partial(_read_all, repository=repository))
        ),
    )


def _show_branch(branch: str | None) -> str:
    return "(all)" if branch is None else branch
