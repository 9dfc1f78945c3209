"""`mergewatch index`: the store as a whole."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

import click

from indexing.store.interface import PruneCount, Store
from service.cli.output import judging_steps, progress_meters
from service.cli.running import now, with_store
from service.settings import load_settings


@click.group()
def index() -> None:
    """Create, rebuild, prune and describe the store."""


@index.command()
def create() -> None:
    """Lay the store out; nothing happens to one that is there."""
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
def status() -> None:
    """Show what the store holds."""
    for name, value in asdict(with_store(lambda store: store.get_status())).items():
        click.echo(f"{name.replace('_', ' '):<13} {value}")
