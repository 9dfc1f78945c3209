"""The options of a run, shared by the commands that read JUnit reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypedDict

import click

from indexing.clocks import utc_now
from indexing.errors import InvalidValueError
from indexing.ingest.junit import ReportRequest, check_started_at
from indexing.models.executions import MAX_ATTEMPT, Run
from indexing.names import RepositoryName
from service.cli.parameters import MOMENT, PULL_REQUEST, STORED_NAME, TEXT
from service.config.settings import Settings, SettingsError

_Command = Callable[..., Any]

_OPTIONS: Final = (
    click.option("--branch", type=STORED_NAME),
    click.option("--commit", type=STORED_NAME, metavar="SHA"),
    click.option("--pipeline", type=STORED_NAME),
    click.option("--job", type=STORED_NAME, help="Matrix builds: one name per job."),
    click.option("--run-id", type=STORED_NAME, metavar="ID"),
    click.option(
        "--attempt", type=click.IntRange(1, MAX_ATTEMPT), help="Default: the CI's, else 1."
    ),
    click.option(
        "--started-at",
        type=MOMENT,
        help="The time of all results, instead of the times in the reports.",
    ),
    click.option(
        "--pull-request",
        type=PULL_REQUEST,
        metavar="NUMBER|FILE",
        help="The number, or the event file of the CI.",
    ),
    click.option("--framework", type=TEXT),
    click.option("--framework-version", type=TEXT),
    click.option("--language", type=TEXT),
)


class FrameworkOptions(TypedDict):
    """The options that describe the tests rather than the run."""

    framework: str | None
    framework_version: str | None
    language: str | None


def run_options(command: _Command) -> _Command:
    """Add the options that describe the run of a report."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def pop_framework_options(options: dict[str, Any]) -> FrameworkOptions:
    """Remove the options that describe the tests from `options`, and return them.

    A blank one states nothing: a script may pass a variable that is not set.
    """
    return FrameworkOptions(
        framework=_unless_blank(options.pop("framework")),
        framework_version=_unless_blank(options.pop("framework_version")),
        language=_unless_blank(options.pop("language")),
    )


def _unless_blank(text: str | None) -> str | None:
    return None if text is None or not text.strip() else text


def make_requests(
    paths: Sequence[Path],
    repository: RepositoryName,
    run: Run,
    started_at: datetime | None,
    framework_options: FrameworkOptions,
    workspace: str | None,
) -> list[ReportRequest]:
    """Return one request for each path; `workspace` is the folder of the repository.

    Raises:
        click.UsageError: `started_at` is outside the accepted range.
    """
    try:
        started_at = check_started_at(started_at, utc_now())
    except InvalidValueError as error:
        raise click.UsageError(str(error).replace("started_at", "--started-at", 1)) from error
    return [
        ReportRequest(
            path, repository, run, started_at=started_at, workspace=workspace, **framework_options
        )
        for path in paths
    ]


def is_without_secret(settings: Settings) -> bool:
    """Whether MERGEWATCH_TOKEN is set to a blank text, and MERGEWATCH_URL to any.

    CI sets them so where it gives no secrets away, as in pull requests from forks.
    """
    are_named = os.environ.keys() >= {"MERGEWATCH_TOKEN", "MERGEWATCH_URL"}
    return are_named and settings.token is None


def check_upload_settings(settings: Settings) -> None:
    """Raise `SettingsError` if only one of MERGEWATCH_URL and MERGEWATCH_TOKEN is set.

    Otherwise the results would be written to a local store that nobody reads.
    """
    if (settings.url is None) != (settings.token is None):
        alone, other = ("URL", "TOKEN") if settings.token is None else ("TOKEN", "URL")
        raise SettingsError(f"MERGEWATCH_{alone} is set without MERGEWATCH_{other}")
