"""`mergewatch events`: the event log of a running service, and events as they arrive."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

import click

from indexing.names import RepositoryName
from mergewatch.client import AsyncClient
from mergewatch.client.bodies import Event, StreamedEvent
from mergewatch.client.errors import ProblemError
from mergewatch.client.filters import EventSelection, Outcome
from mergewatch.client.rows import FollowedEvents
from service.cli.output import visible
from service.cli.parameters import MOMENT, TEXT, repository_option
from service.cli.remote.connection import with_service
from service.cli.remote.rows import (
    DEFAULT_LIMIT,
    json_option,
    limit_option,
    print_json_rows,
    show_rows,
    write_json,
)
from service.schemas.limits import MAX_PER_PAGE

_MALFORMED: Final = 400
# The header field that `--after` becomes. A proxy's 400 does not name it.
_LAST_ID: Final = "Last-Event-ID"
_COLUMNS: Final = ("RECEIVED", "PULL REQUEST", "TYPE", "BASE", "TRIGGER")
_OUTCOMES: Final = ("success", "failure", "pending", "neutral")
_OPTIONS: Final = {
    "pull_request": "--pull-request",
    "base_ref": "--base-ref",
    "event_type": "--type",
    "trigger": "--trigger",
    "outcome": "--outcome",
    "received_from": "--from",
    "received_to": "--to",
    "owner": "--repository",
    "repository": "--repository",
}


@click.command()
@repository_option
@click.option("--pull-request", type=click.IntRange(0), multiple=True, metavar="NUMBER")
@click.option(
    "--type", "types", type=TEXT, multiple=True, metavar="TYPE", help="Such as action.merge."
)
@click.option("--trigger", type=TEXT, multiple=True, metavar="TEXT", help="What caused the event.")
@click.option("--outcome", type=click.Choice(_OUTCOMES), multiple=True)
@click.option(
    "--base-ref", type=TEXT, metavar="NAME", help="The branch that pull requests are merged into."
)
@click.option("--from", "start", type=MOMENT, help="Default: a day before the end.")
@click.option("--to", "end", type=MOMENT, help="Default: now.")
@click.option("--follow", is_flag=True, help="Wait for events and print them as they arrive.")
@click.option(
    "--after", type=TEXT, metavar="ID", help="With --follow: resume after the id it printed last."
)
@limit_option
@json_option
def events(
    repository: RepositoryName,
    pull_request: tuple[int, ...],
    types: tuple[str, ...],
    trigger: tuple[str, ...],
    outcome: tuple[Outcome, ...],
    base_ref: str | None,
    start: datetime | None,
    end: datetime | None,
    follow: bool,
    after: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List the event log of a running service, newest first, or follow it.

    The service is at MERGEWATCH_URL; the key is in MERGEWATCH_TOKEN.
    """
    filters: EventSelection = {
        "pull_request": pull_request,
        "event_type": types,
        "trigger": trigger,
    }
    if base_ref is not None:
        filters["base_ref"] = base_ref
    if follow:
        for option, value in (("--outcome", outcome), ("--from", start), ("--to", end)):
            if value:
                raise click.UsageError(f"{option} cannot be used with --follow.")
        _follow(repository, filters, after, limit, as_json=as_json)
        return
    if after is not None:
        raise click.UsageError("--after is for --follow.")
    filters["outcome"] = outcome
    if start is not None:
        filters["received_from"] = start
    if end is not None:
        filters["received_to"] = end

    async def work(client: AsyncClient) -> None:
        if as_json:
            exported = client.export_events(str(repository), **filters)
            await print_json_rows(exported, limit)
        else:
            # One row more tells whether the table is cut off. An event can have a megabyte.
            size = min((limit or DEFAULT_LIMIT) + 1, MAX_PER_PAGE)
            listed = client.list_events(str(repository), **filters, per_page=size)
            await show_rows(listed, _COLUMNS, _cells_of, limit, wide="TRIGGER")

    with_service(work, _OPTIONS)


def _cells_of(event: Event) -> tuple[str, ...]:
    number = event["pull_request"]
    return (
        event["received_at"],
        "-" if number is None else f"#{number}",
        event["type"],
        event["base_ref"] or "-",
        event["trigger"],
    )


def _write_line(event: Event) -> str:
    # These widths fit most events. Later events are not known yet, so widths cannot adapt.
    received, number, kind, base, trigger = map(visible, _cells_of(event))
    return f"{received:<27}  {number:<6}  {kind:<30}  {base:<10}  {trigger}"


def _follow(
    repository: RepositoryName,
    filters: EventSelection,
    after: str | None,
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    last_id: str | None = None

    def write(each: StreamedEvent) -> str:
        return write_json(each.event) if as_json else _write_line(each.event)

    async def work(client: AsyncClient) -> None:
        nonlocal last_id
        if any(value != () for value in filters.values()):
            # The stream takes no filters. A wrong one would match no event, however long it waits.
            checked = client.list_events(str(repository), **filters, per_page=1)
            async with aclosing(checked.pages()) as pages:
                await anext(pages)
        followed = client.follow_events(str(repository), after)
        is_known = True
        try:
            last_id = await _show(followed, filters, limit, write)
        except ProblemError as error:
            # After a restore of the store, the stream does not know the id any more.
            is_known = error.status != _MALFORMED
            if not is_known and _LAST_ID in error.detail:
                raise click.ClickException(
                    "the service does not know the id to resume after: leave out --after, and list"
                    " with --from what arrived meanwhile"
                ) from None
            raise
        finally:
            if is_known:
                last_id = last_id or followed.last_id

    try:
        with_service(work, _OPTIONS)
    finally:
        if last_id is not None:
            click.echo(f"to go on from here: --follow --after {visible(last_id)}", err=True)


async def _show(
    followed: FollowedEvents,
    filters: EventSelection,
    limit: int | None,
    write: Callable[[StreamedEvent], str],
) -> str | None:
    """Print the events up to the limit, and return the id of the last printed one."""
    left = limit
    async with aclosing(followed.pages()) as pages:
        async for page in pages:
            shown = [each for each in page if _matches(each.event, filters)][:left]
            if shown:
                # `echo` flushes, so a pipe gets the events at once.
                click.echo("\n".join(map(write, shown)))
            if left is not None:
                left -= len(shown)
                if not left:
                    # The rest of the page is not printed.
                    return shown[-1].id
    return None


def _matches(event: Event, filters: EventSelection) -> bool:
    """Whether the event passes the filters; an empty filter passes every event."""
    wanted: dict[str, Any] = {
        "pull_request": filters["pull_request"],
        "type": filters["event_type"],
        "trigger": filters["trigger"],
        "base_ref": (filters["base_ref"],) if "base_ref" in filters else (),
    }
    found: Any = event
    return all(found[name] in values for name, values in wanted.items() if values)
