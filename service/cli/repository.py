"""`mergewatch repository`: the settings of each repository."""

from __future__ import annotations

from typing import BinaryIO, Final

import click

from indexing.clocks import utc_now
from indexing.errors import InvalidValueError
from indexing.models.repositories import (
    MAX_CODE_OWNERS_BYTES,
    MAX_QUARANTINE_AFTER,
    Repository,
    RepositoryChange,
)
from indexing.names import RepositoryName
from indexing.owners.rules import check_rules, read_rules
from indexing.store.interface import Store
from service.cli.output import counted, judging_steps, print_table, progress_meters, visible
from service.cli.parameters import REPOSITORY, STORED_NAME
from service.cli.remote.repositories import health
from service.cli.running import require_repository, with_existing_store, with_store
from service.config.settings import load_settings

_SWITCH: Final = click.Choice(["on", "off"])
_argument = click.argument("name", type=REPOSITORY, metavar="OWNER/REPOSITORY")


@click.group()
def repository() -> None:
    """Register a repository; change, show and list repository settings."""


repository.add_command(health)


@repository.command("set")
@_argument
@click.option(
    "--default-branch", type=STORED_NAME, help="The branch whose results determine health."
)
@click.option(
    "--codeowners",
    type=click.File("rb"),
    metavar="FILE",
    help="The CODEOWNERS file that assigns tests to owners; an empty file removes all owners.",
)
@click.option(
    "--flaky-detection",
    type=_SWITCH,
    help="Whether flaky tests are detected; if off, they count as healthy.",
)
@click.option(
    "--auto-quarantine",
    type=_SWITCH,
    help="Quarantine tests that are flaky or broken on the default branch.",
)
@click.option(
    "--ignore-broken-on-default-branch",
    type=_SWITCH,
    help="Do not auto-quarantine broken tests.",
)
@click.option(
    "--quarantine-after",
    type=click.IntRange(0, MAX_QUARANTINE_AFTER),
    metavar="DAYS",
    help="Auto-quarantine only tests that have been flaky or broken for DAYS days (default 0).",
)
def set_repository(
    name: RepositoryName,
    default_branch: str | None,
    codeowners: BinaryIO | None,
    flaky_detection: str | None,
    auto_quarantine: str | None,
    ignore_broken_on_default_branch: str | None,
    quarantine_after: int | None,
) -> None:
    """Register the repository or change its settings.

    Omitted settings stay as they are. The health of all tests of the repository is recomputed.
    """
    change = RepositoryChange(
        default_branch=default_branch,
        flaky_detection=_is_on(flaky_detection),
        auto_quarantine=_is_on(auto_quarantine),
        ignore_broken_on_default_branch=_is_on(ignore_broken_on_default_branch),
        quarantine_after=quarantine_after,
    )
    code_owners = None if codeowners is None else _read_code_owners(codeowners)
    moment = utc_now()

    async def apply(store: Store) -> Repository:
        if code_owners is not None:
            await store.set_code_owners(name, code_owners or None)
        changed = await store.set_repository(name, change, moment)
        with progress_meters() as meters:
            await store.refresh_tests(moment, judging_steps(meters), name)
        return changed

    settings = load_settings()
    _show(with_store(apply, settings))
    if quarantine_after is not None and quarantine_after >= settings.retention_days:
        click.echo(
            f"warning: results are pruned after {settings.retention_days} days"
            f" (MERGEWATCH_RETENTION_DAYS). Then none are {quarantine_after} days old, so no test"
            " will be quarantined",
            err=True,
        )
    if code_owners is not None:
        count = len([*read_rules(code_owners)])
        click.echo(f"stored {counted(count, 'rule')} of code owners", err=True)


@repository.command()
@_argument
def show(name: RepositoryName) -> None:
    """Show the settings of a repository."""
    _show(with_existing_store(lambda store: require_repository(store, name)))


@repository.command("list")
def list_repositories() -> None:
    """List the known repositories."""
    print_table(
        ("REPOSITORY", "DEFAULT BRANCH", "FLAKY DETECTION", "AUTO-QUARANTINE"),
        (
            (
                str(found.name),
                found.default_branch,
                _switch(on=found.flaky_detection),
                _switch(on=found.auto_quarantine),
            )
            for found in with_existing_store(lambda store: store.list_repositories())
        ),
    )


def _read_code_owners(file: BinaryIO) -> str:
    text = file.read(MAX_CODE_OWNERS_BYTES + 1)
    if len(text) > MAX_CODE_OWNERS_BYTES:
        raise click.UsageError(
            f"--codeowners: {file.name} has more than {MAX_CODE_OWNERS_BYTES:,} bytes"
        )
    try:
        return check_rules(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--codeowners: {file.name} is not UTF-8: {error}") from None
    except InvalidValueError as error:
        raise click.UsageError(f"--codeowners: {file.name}: {error}") from None


def _show(found: Repository) -> None:
    shown = {
        "repository": str(found.name),
        "default branch": visible(found.default_branch),
        "flaky detection": _switch(on=found.flaky_detection),
        "auto-quarantine": _switch(on=found.auto_quarantine),
        "ignore broken on default branch": _switch(on=found.ignore_broken_on_default_branch),
        "quarantine after": counted(found.quarantine_after, "day"),
    }
    width = max(map(len, shown))
    for name, value in shown.items():
        click.echo(f"{name:<{width}}  {value}")


def _is_on(switch: str | None) -> bool | None:
    return None if switch is None else switch == "on"


def _switch(*, on: bool) -> str:
    return "on" if on else "off"
