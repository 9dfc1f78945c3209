"""`mergewatch repository`: the settings of one repository."""

from __future__ import annotations

import click

from indexing.models.repositories import Repository, RepositoryChange
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.cli.output import visible
from service.cli.parameters import REPOSITORY, STORED_NAME
from service.cli.running import with_store

_SWITCH = click.Choice(["on", "off"])
_argument = click.argument("name", type=REPOSITORY, metavar="OWNER/REPOSITORY")


@click.group()
def repository() -> None:
    """Make a repository known, change and show its settings."""


@repository.command("set")
@_argument
@click.option("--default-branch", type=STORED_NAME, help="The branch whose results count.")
@click.option("--flaky-detection", type=_SWITCH, help="Whether a test may be called flaky.")
def set_repository(
    name: RepositoryName, default_branch: str | None, flaky_detection: str | None
) -> None:
    """Make the repository known and change what is given; tests are judged anew."""
    change = RepositoryChange(
        default_branch=default_branch,
        flaky_detection=None if flaky_detection is None else flaky_detection == "on",
    )

    async def apply(store: Store) -> Repository:
        changed = await store.set_repository(name, change)
        await store.refresh_tests()
        return changed

    _show(with_store(apply))


@repository.command()
@_argument
def show(name: RepositoryName) -> None:
    """Show the settings."""
    found = with_store(lambda store: store.find_repository(name))
    if found is None:
        raise click.ClickException(f"the repository {name} is not known")
    _show(found)


def _show(found: Repository) -> None:
    click.echo(f"repository       {found.name}")
    click.echo(f"default branch   {visible(found.default_branch)}")
    click.echo(f"flaky detection  {'on' if found.flaky_detection else 'off'}")
