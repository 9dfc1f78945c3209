"""The root of the command line, where the groups of commands meet."""

from __future__ import annotations

import signal
from typing import Any

import click

from indexing.errors import MergewatchError, StoreUnavailableError
from service.cli.demo import demo
from service.cli.index import index
from service.cli.ingest import ingest
from service.cli.keys import keys
from service.cli.quarantine import quarantine
from service.cli.removal import tests
from service.cli.repository import repository
from service.cli.serve import serve
from service.settings import SettingsError

# What a shell makes of a process that SIGINT ended.
_INTERRUPTED = 128 + signal.SIGINT


class _Commands(click.Group):
    """Shows this project's own errors as one line each; anything else is a bug with a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted; what was stored so far stays", err=True)
            ctx.exit(_INTERRUPTED)
        except StoreUnavailableError as error:
            raise click.ClickException(f"the store is unavailable: {error}") from error
        except MergewatchError as error:
            kind = click.UsageError if isinstance(error, SettingsError) else click.ClickException
            raise kind(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mergewatch")
def main() -> None:
    """Keep the event log of pull-request automation and the health of CI tests.

    Every command works on the store that the MERGEWATCH_* settings name.
    """


for command in (serve, keys, ingest, tests, quarantine, repository, index, demo):
    main.add_command(command)
