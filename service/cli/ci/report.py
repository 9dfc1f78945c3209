"""Prints a decision for people: blocking and quarantined failures, with their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from service.cli.ci.decision import Decision, FailedTest
from service.cli.output import visible

# The maximum number of failures in one list, so that a job log stays readable.
MAX_SHOWN: Final = 50
_MAX_MESSAGE_LINES: Final = 12
_MAX_LINE_LENGTH: Final = 300


def print_decision(decision: Decision, target: str) -> None:
    """Print the failures and, as the last line, the decision."""
    _print_failures(f"quarantined on {target}", decision.quarantined)
    _print_failures("not quarantined", decision.blocking)
    verdict = "blocked" if decision.exit_status else "not blocked"
    click.echo(f"{verdict}: {decision.reason}")


def summarize(failure: FailedTest) -> list[str]:
    """Return the type and message of a failure as printable lines, shortened."""
    text = ": ".join(part for part in (failure.failure_type, failure.failure_message) if part)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    shown = [visible(line)[:_MAX_LINE_LENGTH] for line in lines[:_MAX_MESSAGE_LINES]]
    if len(lines) > _MAX_MESSAGE_LINES:
        shown.append("…")
    return shown


def _print_failures(heading: str, failures: Sequence[FailedTest]) -> None:
    if not failures:
        return
    click.echo(visible(f"{len(failures):,} failed, {heading}:"))
    for failure in failures[:MAX_SHOWN]:
        click.echo(f"  {visible(failure.test_name)[:_MAX_LINE_LENGTH]}")
        for line in summarize(failure):
            click.echo(f"      {line}")
    if len(failures) > MAX_SHOWN:
        click.echo(f"  and {len(failures) - MAX_SHOWN:,} more")
    click.echo()
