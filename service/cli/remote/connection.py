"""Opens a client of the configured service, and turns its errors into command-line errors."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import click

from mergewatch.client import AsyncClient, ClientError, ProblemError
from mergewatch.client.errors import FieldError
from service.cli.commands import INTERRUPTED
from service.cli.output import visible
from service.cli.waiting import wait_aloud
from service.config.settings import load_settings

T = TypeVar("T")

# The end of the detail if the service has no such test, quarantine or repository.
_INVISIBLE: Final = "not visible to this key"

# How the service says which value of a repeated parameter is wrong.
_PLACE: Final = re.compile(r"value ([1-9][0-9]{0,5}): ")
# Of a wrong value that is too long, this much shows which one it is.
_SHOWN_LENGTH: Final = 60


def with_service(work: Callable[[AsyncClient], Awaitable[T]], options: Mapping[str, str]) -> T:
    """Run `work` with a client of the service at MERGEWATCH_URL.

    `options` maps parameters of the API to the options of the command, for error messages.

    Raises:
        click.UsageError: a setting is missing, or the service refuses the value of an option.
        click.ClickException: the service refuses the request or cannot be reached, or there is no
            standard output.
    """
    if sys.stdout is None:
        raise click.ClickException("standard output is closed, so nothing can be shown")
    settings = load_settings()
    if settings.url is None or settings.token is None:
        missing = "MERGEWATCH_TOKEN" if settings.url else "MERGEWATCH_URL"
        raise click.UsageError(
            f"{missing} is not set: this command reads from a running service, at the URL in"
            " MERGEWATCH_URL with the key in MERGEWATCH_TOKEN."
        )
    url, token = settings.url, settings.token

    async def run() -> T:
        async with AsyncClient(url, token, sleep=wait_aloud) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except ProblemError as problem:
        raise _explain(problem, options) from None
    except ClientError as error:
        raise click.ClickException(visible(str(error))) from None
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _name_option(detail: str, options: Mapping[str, str]) -> str:
    """Replace the parameter at the end of a comparison by the option that the user gave."""
    start, separator, field = detail.rpartition(" ")
    return f"{start}{separator}{options[field]}" if field in options else detail


def _find_option(error: FieldError, options: Mapping[str, str]) -> str:
    """Return the option of a parameter: of `path.NAME`, if the query has that name too."""
    option = options.get(f"{error.place}.{error.field}")
    return option or options.get(error.field, error.field)


def _describe(error: FieldError, options: Mapping[str, str]) -> str:
    """Name the option, and the wrong one of its values if it can be repeated."""
    option = _find_option(error, options)
    place = _PLACE.match(error.detail)
    values = _find_values(option)
    if place is None or int(place[1]) > len(values):
        return f"{option}: {_name_option(error.detail, options)}"
    value = str(values[int(place[1]) - 1])
    if len(value) > _SHOWN_LENGTH:
        value = f"{value[:_SHOWN_LENGTH]}..."
    return f"{option} '{value}': {error.detail[place.end() :]}"


def _find_values(option: str) -> tuple[object, ...]:
    """Return the values that the user gave for a repeatable option, or argument such as GLOB."""
    ctx = click.get_current_context()
    for parameter in ctx.command.params:
        if option in parameter.opts or option in parameter.human_readable_name:
            values = ctx.params[parameter.name]
            return values if isinstance(values, tuple) else ()
    return ()


def _explain(problem: ProblemError, options: Mapping[str, str]) -> click.ClickException:
    if problem.errors:
        named = (_describe(error, options) for error in problem.errors)
        return click.UsageError(visible("; ".join(named)))
    detail = problem.detail or problem.title or f"status {problem.status}"
    if problem.status == 403:
        detail = f"the service refuses the key in MERGEWATCH_TOKEN: {detail}"
    elif problem.status != 404 or not problem.detail.endswith(_INVISIBLE):
        # A 404 of another service, or of another path, is explained by its URL.
        detail = str(problem)
    return click.ClickException(visible(detail))
