"""The root of the command line.

Each command is imported when it is called; `mergewatch --help` and shell completion import none.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any, Final

import click

from indexing.errors import MergewatchError, StoreUnavailableError
from service.cli.log_lines import show_fields
from service.config.prefix import PREFIX

# The exit status that a shell reports for a process killed by SIGINT.
INTERRUPTED: Final = 128 + signal.SIGINT

# Module `service.cli.NAME` holds command NAME. A test checks that each text is the first line of
# the command's docstring.
COMMANDS: Final = {
    "ci": "Decide in a CI job whether failed tests block it.",
    "demo": "Load the examples into an empty store; print a key and curl commands to try.",
    "events": "List the event log of a running service, newest first, or follow it.",
    "index": "Create, upgrade, back up, restore, rebuild, prune and inspect the store.",
    "ingest": "Load events and test reports; loading is idempotent.",
    "keys": "Create, list and revoke application keys.",
    "quarantine": "Add, remove and list quarantined tests.",
    "repository": "Register a repository; change, show and list repository settings.",
    "serve": "Run the service until SIGTERM, SIGINT or SIGHUP; options override settings.",
    "tests": "Search and count tests, show one and its failures; remove one from the store.",
    "webhook": "Add, list and remove the webhooks of a repository; queue dead letters again.",
}
# The modules of commands that are not in `service.cli.NAME`.
_MODULES: Final = {"events": "remote.events", "tests": "remote.tests"}


class _Commands(click.Group):
    """Prints a domain error, a full disk or a lack of permission as one line.

    Any other exception gets a traceback.
    """

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
            click.echo("interrupted; data stored so far is kept", err=True)
            ctx.exit(INTERRUPTED)
        except StoreUnavailableError as error:
            raise click.ClickException(f"the store is unavailable: {error}") from error
        except MergewatchError as error:
            from service.config.settings import SettingsError

            kind = click.UsageError if isinstance(error, SettingsError) else click.ClickException
            raise kind(str(error)) from error
        except OSError as error:
            raise _explain(error) from error

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        # Prints the help and the version.
        try:
            return super().make_context(*args, **kwargs)
        except OSError as error:
            raise _explain(error) from error


def _explain(error: OSError) -> Exception:
    """Return the error to raise for one that no command expected."""
    # A full disk is no bug; standard output may be a file on it.
    if error.errno == errno.ENOSPC:
        return click.ClickException(f"writing failed: {error.strerror}")
    # Nor is a file or folder that this user may not use.
    if isinstance(error, PermissionError) and error.filename is not None:
        from service.cli.output import visible

        return click.ClickException(visible(f"{error.filename}: {error.strerror}"))
    return error


def _warn_of_ineffective() -> None:
    # Without any, the settings need not be imported for this.
    if any(name.startswith(PREFIX) for name in os.environ):
        from service.config.ineffective import (
            ELASTICSEARCH_URL,
            find_misspelled,
            find_without_url,
        )

        for name, meant in find_misspelled(os.environ):
            click.echo(f"warning: there is no setting {name}; it may mean {meant}", err=True)
        for name in find_without_url(os.environ):
            click.echo(f"warning: {name} has no effect without {ELASTICSEARCH_URL}", err=True)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mergewatch")
def main() -> None:
    """Keep the event log of pull-request automation and the health of CI tests.

    `events`, `repository health` and most of `tests` read from the service at MERGEWATCH_URL. If
    that is set, `ingest junit` and `ci junit` upload to it. Every other command uses the store that
    the MERGEWATCH_* settings configure.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        # Names may have characters that the encoding of the terminal lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    show_fields()
    _warn_of_ineffective()
