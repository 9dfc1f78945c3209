"""Prints rows of the API as a table, or as one JSON object per line.

Unprintable characters are escaped, so that text from the service cannot control a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from indexing.events.json_text import encode
from mergewatch.client.rows import Rows
from service.cli.output import counted, print_table, visible

T = TypeVar("T")

DEFAULT_LIMIT: Final = 50
# A table is held in memory as a whole, so its rows are limited.
MAX_LIMIT: Final = 10_000
_MIN_WIDTH: Final = 20
_MIN_TABLE_WIDTH: Final = 80

_STYLES: Final = {"healthy": "green", "flaky": "yellow", "broken": "red"}

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, as the API returns it."
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    help=f"The maximum number of rows; default: {DEFAULT_LIMIT}, or all with --json.",
)


def write_json(row: Mapping[str, Any]) -> str:
    """Return one line of JSON, with escapes for what standard output cannot show."""
    line = encode(row).decode()
    if _is_shown(line):
        return line
    return "".join(c if _is_shown(c) else _escape(c) for c in line)


def _is_shown(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return text.isprintable()


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


async def print_json_rows(rows: Rows[Any], limit: int | None) -> None:
    """Print rows as they arrive, at most `limit`, each as a line of JSON."""
    left = limit
    async with aclosing(rows.pages()) as pages:
        async for page in pages:
            lines = [write_json(row) for row in page[:left]]
            if lines:
                # `echo` flushes: a pipe gets the rows at once, and a closed pipe ends the command.
                click.echo("\n".join(lines))
            if left is not None:
                left -= len(lines)
                if not left:
                    return


async def show_rows(
    rows: Rows[T],
    columns: Sequence[str],
    cells_of: Callable[[T], Sequence[str]],
    limit: int | None,
    *,
    wide: str,
) -> None:
    """Print the first rows as `show_table` does, and a note if there are more.

    At most `limit` rows, by default `DEFAULT_LIMIT`.
    """
    most = limit or DEFAULT_LIMIT
    found, has_more = await _take(rows, most)
    show_table(columns, [cells_of(row) for row in found], wide=wide)
    say_if_more(has_more=has_more, count=most)


async def _take(rows: Rows[T], limit: int) -> tuple[list[T], bool]:
    """Return at most `limit` rows, and whether there are more."""
    found: list[T] = []
    async with aclosing(rows.pages()) as pages:
        async for page in pages:
            found += page
            if len(found) > limit:
                return found[:limit], True
    return found, False


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, wide: str = "") -> None:
    """Print a table, fitted to the width of a terminal, or at full width for a pipe.

    On a terminal, cells that do not fit are folded; the column `wide` keeps a minimum width.
    """
    if not _is_terminal():
        print_table(columns, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        width = _MIN_WIDTH if name == wide else len(name)
        table.add_column(name, overflow="fold", min_width=width)
    for row in rows:
        # `Text` does not interpret markup in a name.
        table.add_row(*(Text(visible(cell), style=_STYLES.get(cell, "")) for cell in row))
    console = Console()
    # Below this a table would lose columns; the terminal wraps its lines instead.
    console.print(table, width=max(console.width, _MIN_TABLE_WIDTH), crop=False)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def say_if_more(*, has_more: bool, count: int) -> None:
    """Print a note on standard error if the table is cut off."""
    if has_more:
        click.echo(f"the first {counted(count, 'row')}; --limit shows more", err=True)
