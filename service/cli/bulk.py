"""Shared steps of commands that change several tests.

They read the glob, confirm, and find the user.
"""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Final

import click

from indexing.errors import InvalidValueError
from indexing.models.paging import Anchor
from indexing.models.quarantines import Actor, ActorKind
from indexing.models.tests import IdentityKey, TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.cli.output import confirm, counted, visible
from service.schemas.limits import check_stored_glob

_ROWS_A_PAGE: Final = 1_000
_SHOWN_NAMES: Final = 20


def find_user() -> Actor:
    """Return the local user who runs the command."""
    try:
        # The environment may have bytes that are not UTF-8, which no store takes.
        name = getpass.getuser().encode(errors="surrogateescape").decode(errors="replace")
        return Actor(ActorKind.USER, name)
    except (KeyError, OSError):
        # A container may run as a user id without a name.
        return Actor(ActorKind.USER, "unknown")


def read_glob(text: str) -> str:
    """Return the glob, or raise `click.UsageError` if it exceeds the limits of the search."""
    try:
        return check_stored_glob(text)
    except InvalidValueError as error:
        raise click.UsageError(f"--test-glob {error}.") from error


async def find_tests(store: Store, *, repository: RepositoryName, glob: str) -> list[str]:
    """Return the names of all tests that match the checked glob, sorted, without duplicates."""
    query = TestQuery(repository, (glob,), sort=TestSort.TEST_NAME, descending=False)
    names: dict[str, None] = {}
    anchor: Anchor[IdentityKey] = Anchor()
    while True:
        page = await store.search_tests(query, anchor, _ROWS_A_PAGE)
        names.update((row.key.test_name, None) for row in page.rows)
        if not page.has_next:
            return list(names)
        anchor = Anchor(page.rows[-1].key)


def confirm_names(action: str, names: Sequence[str], noun: str, *, yes: bool) -> None:
    """Show the names of the tests and ask for confirmation; `yes` skips the question.

    The question counts the names as `noun`: a test may have several quarantines.

    Raises:
        click.ClickException: there are no tests, or nobody to ask.
        click.Abort: the user declines.
    """
    if not names:
        raise click.ClickException("no test matches")
    for name in names[:_SHOWN_NAMES]:
        click.echo(f"  {visible(name)}", err=True)
    if len(names) > _SHOWN_NAMES:
        click.echo(f"  and {len(names) - _SHOWN_NAMES:,} more", err=True)
    if not yes:
        confirm(f"{action} {counted(len(names), noun)}?")
