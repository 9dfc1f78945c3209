"""Command output: tables on standard output, progress and counts on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final, Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from indexing.ingest.counts import IngestCount
from indexing.timestamps import format_timestamp

# The interval of progress lines if standard error is not a terminal.
_SECONDS_BETWEEN_LINES: Final = 2.0

# Most refusals of a file have one reason, so a screenful is enough.
_SHOWN_REFUSALS: Final = 20


def confirm(question: str) -> None:
    """Ask a question on standard error; go on only if the user says yes.

    Raises:
        click.Abort: the user says no, or nothing.
        click.ClickException: there is no standard input.
    """
    if sys.stdin is None:
        raise click.ClickException("standard input is closed, so --yes has to confirm this")
    click.confirm(question, abort=True, err=True)


class Meter(Protocol):
    """Receives progress: units done, and the total if known."""

    def __call__(self, done: int, total: int | None) -> None: ...


def visible(text: str) -> str:
    """Escape control characters in untrusted text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, which takes an `s` in the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_moment(moment: datetime | None) -> str:
    return "-" if moment is None else format_timestamp(moment)


def warn_if_past(expires: datetime | None, moment: datetime) -> None:
    """Warn if the expiry date is in the past."""
    if expires is not None and expires <= moment:
        click.echo(
            f"warning: {format_timestamp(expires)} is in the past, so it has already expired",
            err=True,
        )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns, readable by people and by `awk`."""
    cells = [list(columns), *([visible(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


@contextmanager
def progress_meters() -> Iterator[Callable[[str, str], Meter]]:
    """Yield a function that makes a meter from a label and a unit.

    On a terminal, a meter is a progress bar; otherwise it prints a line every few seconds.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_meter
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:

        def add(label: str, unit: str) -> Meter:
            # Hidden until there is progress to show.
            task = bars.add_task(visible(label), total=None, visible=False, unit=unit)

            def draw(done: int, total: int | None) -> None:
                bars.update(task, completed=done, total=total, visible=True)

            return draw

        yield add


def judging_steps(make_meter: Callable[[str, str], Meter]) -> Callable[[int], None]:
    """Return a function that shows the number of recomputed tests; their total is not known."""
    meter = make_meter("judging", "tests")
    return lambda done: meter(done, None)


def _plain_meter(label: str, unit: str) -> Meter:
    last = time.monotonic()

    def write(done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            of = "" if total is None else f" of {total:,}"
            click.echo(f"{visible(label)}: {done:,}{of} {unit}", err=True)

    return write


class RefusalList:
    """Prints the first refusals as they occur, and the number of the rest at the end."""

    def __init__(self) -> None:
        self._count = 0

    def show(self, text: str) -> None:
        self._count += 1
        if self._count <= _SHOWN_REFUSALS:
            click.echo(f"refused: {visible(text)}", err=True)

    def close(self) -> None:
        if self._count > _SHOWN_REFUSALS:
            click.echo(f"refused: and {self._count - _SHOWN_REFUSALS:,} more", err=True)


def print_count(count: IngestCount) -> None:
    """Print the summary line of an ingest."""
    click.echo(
        f"read {count.read}, written {count.written}, unchanged {count.unchanged},"
        f" refused {count.refused}",
        err=True,
    )


def finish_ingest(ctx: click.Context, count: IngestCount) -> None:
    """Print the summary; exit with status 1 if anything was refused."""
    print_count(count)
    if count.refused:
        ctx.exit(1)
