"""The root of the command line, where the groups of commands meet.

Each command is imported when it is called: `mergewatch --help` and the completion of a shell load
none of them.
"""

from __future__ import annotations

import signal
from importlib import import_module
from typing import Any, Final

import click

from indexing.errors import MergewatchError, StoreUnavailableError

# What a shell makes of a process that SIGINT ended.
_INTERRUPTED = 128 + signal.SIGINT

# The module `service.cli.NAME` holds the command NAME. A test compares the texts with theirs.
COMMANDS: Final = {
    "demo": "Load the examples into an empty store, and print a key and curl lines to read them"
    " by.",
    "index": "Create, upgrade, back up, restore, rebuild, prune and describe the store.",
    "ingest": "Load events and test reports; loading the same again changes nothing.",
    "keys": "Create, list and revoke application keys.",
    "quarantine": "Add, remove and list quarantined tests.",
    "repository": "Make a repository known; change, show and list settings.",
    "serve": "Answer requests until SIGTERM, SIGINT or SIGHUP; the options override the settings.",
    "tests": "Single tests in the store.",
}
# Where the module has another name.
_MODULES: Final = {"tests": "removal"}


class _Commands(click.Group):
    """Shows this project's own errors as one line each; anything else is a bug with a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module = _MODULES.get(cmd_name, cmd_name)
        command: click.Command = getattr(import_module(f"service.cli.{module}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted; what was stored so far stays", err=True)
            ctx.exit(_INTERRUPTED)
        except StoreUnavailableError as error:
            raise click.ClickException(f"the store is unavailable: {error}") from error
        except MergewatchError as error:
            from service.config.settings import SettingsError

            kind = click.UsageError if isinstance(error, SettingsError) else click.ClickException
            raise kind(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mergewatch")
def main() -> None:
    """Keep the event log of pull-request automation and the health of CI tests.

    Every command works on the store that the MERGEWATCH_* settings name.
    """
