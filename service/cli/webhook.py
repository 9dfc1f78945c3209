"""`mergewatch webhook`: the webhooks of a repository. URLs and secrets are never shown."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Final

import click

from indexing.clocks import utc_now
from indexing.models.notifications import OutboxCount, Webhook, WebhookFormat
from indexing.names import RepositoryName
from indexing.store.interface import Store
from service.cli.output import counted, format_moment, print_table
from service.cli.parameters import REPOSITORY, SECRET, WEBHOOK_URL, repository_option
from service.cli.running import require_repository, with_existing_store, with_store
from service.config.reach import Reach
from service.config.settings import load_settings
from service.notifications.registration import host_of

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_MAX_FILE_BYTES: Final = 8_192
_id_argument = click.argument("webhook_id", type=click.UUID, metavar="ID")


@click.group()
def webhook() -> None:
    """Add, list and remove the webhooks of a repository; queue dead letters again."""


@webhook.command()
@repository_option
@click.option("--url-file", type=_FILE, required=True, help="A file with the URL of the receiver.")
@click.option("--secret-file", type=_FILE, help="A file with the signing secret, in base64.")
@click.option("--slack", is_flag=True, help="Send messages for Slack, without a signature.")
@click.pass_context
def add(
    ctx: click.Context,
    repository: RepositoryName,
    url_file: Path,
    secret_file: Path | None,
    *,
    slack: bool,
) -> None:
    """Add a webhook and print its id."""
    if slack == (secret_file is not None):
        raise click.UsageError("give either --secret-file or --slack")
    made = Webhook(
        uuid.uuid4(),
        repository,
        WebhookFormat.SLACK if slack else WebhookFormat.STANDARD,
        WEBHOOK_URL.convert(_read(url_file), None, ctx),
        b"" if secret_file is None else SECRET.convert(_read(secret_file), None, ctx),
        utc_now(),
    )
    with_store(lambda store: store.add_webhook(made))
    click.echo(made.id)
    if load_settings().notifications is None:
        click.echo("the service sends nothing until MERGEWATCH_NOTIFICATIONS is set", err=True)


@webhook.command("list")
@click.option("--repository", type=REPOSITORY, metavar="OWNER/REPOSITORY", help="Only of this one.")
def list_webhooks(repository: RepositoryName | None) -> None:
    """List the webhooks, and count their waiting and dead notifications."""

    async def read(store: Store) -> list[tuple[Webhook, OutboxCount]]:
        found = await store.list_webhooks(repository)
        if repository is not None and not found:
            await require_repository(store, repository)
        return [(each, await store.count_outbox(each.id)) for each in found]

    print_table(
        ("ID", "REPOSITORY", "FORMAT", "HOST", "CREATED", "WAITING", "SINCE", "DEAD"),
        (
            (
                str(each.id),
                str(each.repository),
                each.format.value,
                host_of(each.url),
                format_moment(each.created_at),
                str(count.waiting),
                format_moment(count.oldest_at),
                str(count.dead),
            )
            for each, count in with_existing_store(read)
        ),
    )


@webhook.command()
@repository_option
@_id_argument
def remove(repository: RepositoryName, webhook_id: uuid.UUID) -> None:
    """Remove a webhook and its notifications."""
    if not with_existing_store(lambda store: store.remove_webhook(repository, webhook_id)):
        raise _unknown(repository, webhook_id)


@webhook.command()
@repository_option
@_id_argument
def retry(repository: RepositoryName, webhook_id: uuid.UUID) -> None:
    """Queue the dead letters of a webhook again, for another day."""

    async def revive(store: Store) -> int:
        await _find(store, repository, webhook_id)
        return await store.retry_dead(webhook_id, utc_now())

    count = with_existing_store(revive)
    click.echo(f"queued again: {counted(count, 'notification')}", err=True)


@webhook.command()
@repository_option
@_id_argument
def test(repository: RepositoryName, webhook_id: uuid.UUID) -> None:
    """Send a test message at once and report the result."""
    # Imported here, because they load the HTTP client.
    from service.notifications.connections import PRIVATE_REFUSED
    from service.notifications.delivery import Attempt, Delivery, Result
    from service.notifications.messages import make_test

    found = with_existing_store(lambda store: _find(store, repository, webhook_id))

    async def send() -> Attempt:
        moment = utc_now()
        message = make_test(found, str(uuid.uuid4()), moment)
        delivery = Delivery.open(load_settings().notifications or Reach.PUBLIC)
        try:
            return await delivery.send(found, message, moment)
        finally:
            await delivery.close()

    attempt = asyncio.run(send())
    if attempt.result is not Result.SENT:
        here = ", for this command too" if attempt.reason == PRIVATE_REFUSED else ""
        raise click.ClickException(f"the receiver did not take the message: {attempt.reason}{here}")
    click.echo("the receiver took the message", err=True)


async def _find(store: Store, repository: RepositoryName, webhook_id: uuid.UUID) -> Webhook:
    for each in await store.list_webhooks(repository):
        if each.id == webhook_id:
            return each
    raise _unknown(repository, webhook_id)


def _unknown(repository: RepositoryName, webhook_id: uuid.UUID) -> click.ClickException:
    return click.ClickException(f"{repository} has no webhook {webhook_id}")


def _read(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(_MAX_FILE_BYTES).decode(errors="replace")
