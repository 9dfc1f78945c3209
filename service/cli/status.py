"""Prints the status of the store, for people or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import orjson

from indexing.pruning import PruneRun
from indexing.timestamps import format_timestamp
from service.cli.output import counted


def print_status(values: Mapping[str, Any], *, as_json: bool) -> None:
    """Print named values, one of which may be the record of a prune."""
    if as_json:
        click.echo(orjson.dumps({name: _to_json(value) for name, value in values.items()}))
        return
    for name, value in values.items():
        text = _describe(value) if name == "last_prune" else value
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


def _describe(run: PruneRun | None) -> str:
    if run is None:
        return "-"
    began = f"began {format_timestamp(run.began_at)}"
    if run.ended_at is None:
        return f"{began}, not ended"
    return (
        f"{began}, ended {format_timestamp(run.ended_at)},"
        f" removed {counted(run.events, 'event')} and {counted(run.executions, 'execution')}"
    )
