"""`mergewatch index`: commands for the whole store."""

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
    """Create, upgrade, back up, restore, rebuild, prune and inspect the store."""


index.add_command(backup)
index.add_command(restore)


@index.command()
def create() -> None:
    """Create the store if it is missing; upgrade an older one."""
    with_store(lambda store: store.ping())
    click.echo("the store is ready", err=True)


@index.command()
def rebuild() -> None:
    """Recompute all derived data from the stored executions."""
    with progress_meters() as meters:
        judged = judging_steps(meters)
        count = with_store(lambda store: store.rebuild(now(), judged))
    click.echo(f"rebuilt {count} tests", err=True)


@index.command()
def prune() -> None:
    """Delete events and executions older than MERGEWATCH_RETENTION_DAYS.

    The daily figures of tests are deleted after MERGEWATCH_ROLLUP_DAYS.
    """
    settings = load_settings()
    moment = now()
    before = moment - timedelta(days=settings.retention_days)
    rollups_before = moment - timedelta(days=settings.rollup_days)

    async def drop(store: Store) -> PruneCount:
        with progress_meters() as meters:
            return await store.prune(before, moment, judging_steps(meters), rollups_before)

    count = with_store(drop, settings)
    click.echo(f"dropped {count.events} events and {count.executions} executions", err=True)


@index.command()
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show the contents and the version of the store."""
    settings = load_settings()
    versions = asyncio.run(find_versions(settings.store))
    if versions is None or versions.stored == versions.known:
        for name, value in asdict(with_store(lambda store: store.get_status(), settings)).items():
            _print_line(name, value)
        return
    # Counting would open the store, and opening it would upgrade it.
    _print_line("backend", "elasticsearch" if settings.elasticsearch_url else "sqlite")
    _print_line("version", versions.stored)
    _print_line("known_version", versions.known)
    if versions.stored < versions.known:
        click.echo(
            "the store has an older version: run `mergewatch index create` or start the service"
            " to upgrade it",
            err=True,
        )
        return
    click.echo("the store has a newer version: this release cannot use it", err=True)
    ctx.exit(1)


def _print_line(name: str, value: object) -> None:
    click.echo(f"{name.replace('_', ' '):<13} {value}")
