"""`mergewatch index`: the store as a whole."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import timedelta

import click

from indexing.store import find_versions
from indexing.store.interface import PruneCount, Store
from service.cli.copies import backup, restore
from service.cli.output import judging_steps, progress_meters
from service.cli.running import now, with_store
from service.config.settings import load_settings


@click.group()
def index() -> None:
    """Create, upgrade, back up, restore, rebuild, prune and describe the store."""


index.add_command(backup)
index.add_command(restore)


@index.command()
def create() -> None:
    """Make the store where there is none, and upgrade one of an earlier version."""
    with_store(lambda store: store.ping())
    click.echo("the store is ready", err=True)


@index.command()
def rebuild() -> None:
    """Work out anew all that is derived from what is stored."""
    with progress_meters() as meters:
        judged = judging_steps(meters)
        count = with_store(lambda store: store.rebuild(now(), judged))
    click.echo(f"rebuilt {count} tests", err=True)


@index.command()
def prune() -> None:
    """Drop the events and executions that are older than MERGEWATCH_RETENTION_DAYS."""
    settings = load_settings()
    moment = now()
    before = moment - timedelta(days=settings.retention_days)

    async def drop(store: Store) -> PruneCount:
        with progress_meters() as meters:
            return await store.prune(before, moment, judging_steps(meters))

    count = with_store(drop, settings)
    click.echo(f"dropped {count.events} events and {count.executions} executions", err=True)


@index.command()
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show what the store holds, and which version it has."""
    settings = load_settings()
    versions = asyncio.run(find_versions(settings.store))
    if versions is None or versions.stored == versions.known:
        for name, value in asdict(with_store(lambda store: store.get_status(), settings)).items():
            _print_line(name, value)
        return
    # To count would be to open it, and to open it would be to upgrade it.
    _print_line("backend", "elasticsearch" if settings.elasticsearch_url else "sqlite")
    _print_line("version", versions.stored)
    _print_line("known_version", versions.known)
    if versions.stored < versions.known:
        click.echo(
            "the store is of an earlier version: `mergewatch index create`, or the service when it"
            " starts, upgrades it",
            err=True,
        )
        return
    click.echo("the store is of a newer version: this release cannot use it", err=True)
    ctx.exit(1)


def _print_line(name: str, value: object) -> None:
    click.echo(f"{name.replace('_', ' '):<13} {value}")
