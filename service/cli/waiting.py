"""Waits before a request to a service is sent again, and says so."""

from __future__ import annotations

import asyncio

import click


async def wait_aloud(seconds: float) -> None:
    """Sleep, after a line on standard error: a job that stands still has to say why."""
    click.echo(f"the service is unavailable or busy; trying again in {seconds:g} s", err=True)
    await asyncio.sleep(seconds)
