"""`mergewatch keys`: application keys. A key is shown once, when it is created."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from indexing.clocks import utc_now
from indexing.models.keys import ApplicationKey, Scope
from service.auth.api_keys import make_key, make_key_id
from service.cli.output import format_moment, print_table, warn_if_past
from service.cli.parameters import MOMENT, OWNER, REPOSITORY_ALONE, STORED_NAME
from service.cli.running import with_existing_store, with_store


@click.group()
def keys() -> None:
    """Create, list and revoke application keys."""


@keys.command()
@click.option("--name", type=STORED_NAME, required=True, help="A label for the key.")
@click.option(
    "--owner", type=OWNER, required=True, help="The owner whose repositories the key can access."
)
@click.option("--repository", type=REPOSITORY_ALONE, help="Restrict the key to this repository.")
@click.option("--scope", type=click.Choice([scope.value for scope in Scope]), required=True)
@click.option("--expires", type=MOMENT, help="A date, or a time with a UTC offset.")
def create(
    name: str, owner: str, repository: str | None, scope: str, expires: datetime | None
) -> None:
    """Create a key and print only the key on standard output."""
    if sys.stdout is None:
        raise click.ClickException("standard output is closed, so no key was created")
    text, key = make_key(
        key_id=make_key_id(),
        name=name,
        scope=Scope(scope),
        owner=owner,
        repository=repository,
        created_at=utc_now(),
        expires_at=expires,
    )
    with_store(lambda store: store.add_key(key))
    try:
        warn_if_past(expires, key.created_at)
        click.echo(
            f"key {key.id} ({key.scope} for {_covered(key)}) is shown only once; keep it safe",
            err=True,
        )
        click.echo(text)
    except OSError as error:
        with_store(lambda store: store.revoke_key(key.id, utc_now()))
        raise click.ClickException(
            f"the key could not be printed and was revoked: {error}"
        ) from error


@keys.command("list")
def list_keys() -> None:
    """List the keys, without their secrets."""
    moment = utc_now()
    found = with_existing_store(lambda store: store.list_keys())
    print_table(
        ("ID", "NAME", "SCOPE", "REPOSITORIES", "CREATED", "EXPIRES", "STATE"),
        (
            (
                key.id,
                key.name,
                key.scope.value,
                _covered(key),
                format_moment(key.created_at),
                format_moment(key.expires_at),
                _state(key, moment),
            )
            for key in found
        ),
    )


@keys.command()
@click.argument("key_id", metavar="ID")
def revoke(key_id: str) -> None:
    """Revoke a key; it stops working everywhere within 60 seconds."""
    if not with_existing_store(lambda store: store.revoke_key(key_id, utc_now())):
        raise click.ClickException(f"no such key: {key_id}")
    click.echo(f"revoked {key_id}", err=True)


def _covered(key: ApplicationKey) -> str:
    return f"{key.owner}/{key.repository or '*'}"


def _state(key: ApplicationKey, moment: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= moment:
        return "expired"
    return "active"
