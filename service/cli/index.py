"""`mergewatch index`: commands for the whole store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

import click
import orjson

from indexing.clocks import utc_now
from indexing.pruning import PruneRun
from indexing.store import create_lost_parts, name_backend, recorded_prune
from indexing.store.interface import PruneCount, Store, StoreStatus
from indexing.timestamps import format_timestamp
from service.cli.backup import backup, restore
from service.cli.output import counted, judging_steps, progress_meters
from service.cli.running import require_store, with_existing_store, with_store
from service.config.settings import Settings, load_settings

# The increment of the niceness. The system limits the sum to its maximum, the lowest priority.
LOWEST_PRIORITY: Final = 19


@click.group()
def index() -> None:
    """Create, upgrade, back up, restore, rebuild, prune and inspect the store."""


index.add_command(backup)
index.add_command(restore)


@index.command()
def create() -> None:
    """Create the store if it is missing; upgrade an older one.

    Indices that were deleted from a store in Elasticsearch are created again, empty.
    """
    settings = load_settings()
    # Before the store is opened, which needs some of them.
    for name in asyncio.run(create_lost_parts(settings.store)):
        click.echo(
            f"the index {name} was missing and is created again, empty: restore a snapshot of it,"
            " or run `mergewatch index rebuild` for what can be computed from executions",
            err=True,
        )
    with_store(lambda store: store.ping(), settings)
    click.echo("the store is ready", err=True)


@index.command()
def rebuild() -> None:
    """Recompute all derived data from the stored executions."""
    with progress_meters() as meters:
        judged = judging_steps(meters)
        count = with_existing_store(lambda store: store.rebuild(utc_now(), judged))
    click.echo(f"rebuilt {counted(count, 'test')}", err=True)


@index.command()
@click.option("--run", "run_id", hidden=True, help="Do the recorded run with this id, silently.")
def prune(run_id: str | None) -> None:
    """Delete old events and executions.

    They are deleted after MERGEWATCH_RETENTION_DAYS. The daily roll-ups of tests are deleted after
    MERGEWATCH_ROLLUP_DAYS, but not before the executions of the same day.
    """
    settings = load_settings()
    if run_id is not None:
        _prune_for_service(settings, run_id)
        return
    moment = utc_now()
    before = moment - timedelta(days=settings.retention_days)
    rollups_before = moment - timedelta(days=settings.rollup_days)

    async def drop(store: Store) -> PruneCount:
        run = await recorded_prune.begin(store, moment)
        with progress_meters() as meters:
            return await recorded_prune.prune(
                store, run, before, utc_now, judging_steps(meters), rollups_before
            )

    count = with_existing_store(drop, settings)
    events, executions = counted(count.events, "event"), counted(count.executions, "execution")
    click.echo(f"dropped {events} and {executions}", err=True)


def _prune_for_service(settings: Settings, run_id: str) -> None:
    """Prune as a child process of the service, which may end before this process does."""
    os.nice(LOWEST_PRIORITY)

    async def drop(store: Store) -> None:
        run = await store.get_prune_run()
        if run is None or run.id != run_id or run.ended_at is not None:
            return
        before = run.began_at - timedelta(days=settings.retention_days)
        rollups_before = run.began_at - timedelta(days=settings.rollup_days)
        await recorded_prune.prune(store, run, before, utc_now, rollups_before=rollups_before)

    with_store(drop, settings)


@index.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def status(ctx: click.Context, *, as_json: bool) -> None:
    """Show the contents and version of the store.

    Also shows the last prune. The exit status is 1 if there is no store.
    """
    settings = load_settings()
    versions = require_store(settings)
    if versions.stored == versions.known:
        counts, run = with_store(_read_status, settings)
        _print_status({**asdict(counts), "last_prune": run}, as_json=as_json)
        return
    # Show no counts: reading them would open the store, which would upgrade it.
    shown = {
        "backend": name_backend(settings.store),
        "version": versions.stored,
        "known_version": versions.known,
    }
    _print_status(shown, as_json=as_json)
    if versions.stored < versions.known:
        click.echo(
            "the store has an older version: run `mergewatch index create` or start the service"
            " to upgrade it",
            err=True,
        )
        return
    click.echo("the store has a newer version: this release cannot use it", err=True)
    ctx.exit(1)


async def _read_status(store: Store) -> tuple[StoreStatus, PruneRun | None]:
    return await store.get_status(utc_now()), await store.get_prune_run()


def _print_status(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Print named values, one of which may be the record of a prune."""
    if as_json:
        click.echo(orjson.dumps({name: _to_json(value) for name, value in values.items()}))
        return
    for name, value in values.items():
        text = _describe_prune(value) if name == "last_prune" else value
        click.echo(f"{name.replace('_', ' '):<13} {text}")


def _to_json(value: Any) -> Any:
    if not isinstance(value, PruneRun):
        return value
    ended = None if value.ended_at is None else format_timestamp(value.ended_at)
    return {
        "began_at": format_timestamp(value.began_at),
        "ended_at": ended,
        "events": value.events,
        "executions": value.executions,
    }


def _describe_prune(run: PruneRun | None) -> str:
    if run is None:
        return "-"
    began = f"began {format_timestamp(run.began_at)}"
    if run.ended_at is None:
        return f"{began}, not ended"
    return (
        f"{began}, ended {format_timestamp(run.ended_at)},"
        f" removed {counted(run.events, 'event')} and {counted(run.executions, 'execution')}"
    )
