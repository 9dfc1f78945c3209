"""Annotations and the step summary of GitHub Actions.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import html
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from service.cli.ci.decision import Decision, FailedTest
from service.cli.ci.report import MAX_SHOWN, summarize
from service.cli.output import visible

# GitHub shows ten annotations of each level for a step.
_MAX_ANNOTATIONS: Final = 10
# A summary of more than 1 MiB is dropped as a whole; other steps may have written to it.
_MAX_SUMMARY_BYTES: Final = 256 * 1024


@contextmanager
def commands_stopped(*, enabled: bool) -> Iterator[None]:
    """Stop the runner from interpreting workflow commands that printed test output contains."""
    if not enabled:
        yield
        return
    token = secrets.token_hex(16)
    click.echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        click.echo(f"::{token}::")


def annotate(decision: Decision, target: str) -> None:
    """Print annotations of the first failures: errors if they block, warnings if quarantined."""
    for failure in decision.blocking[:_MAX_ANNOTATIONS]:
        _print_command("error", failure, failure.test_name)
    for failure in decision.quarantined[:_MAX_ANNOTATIONS]:
        _print_command("warning", failure, f"Quarantined on {target}: {failure.test_name}")
    if decision.exit_status and not decision.blocking:
        click.echo(f"::error title=mergewatch::{_escape(decision.reason)}")


def write_summary(decision: Decision, target: str, path: str | None) -> None:
    """Append the decision to the step summary; warn if the file cannot be written."""
    if not path:
        return
    verdict = "Blocked" if decision.exit_status else "Not blocked"
    text = f"### {verdict}: {html.escape(visible(decision.reason))}\n\n"
    text += _make_table("not quarantined", decision.blocking)
    text += _make_table(f"quarantined on {target}", decision.quarantined)
    try:
        with Path(path).open("a", encoding="utf-8") as summary:
            summary.write(text)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        click.echo(f"warning: the step summary cannot be written: {reason}", err=True)


def _print_command(level: str, failure: FailedTest, title: str) -> None:
    properties = {"title": title}
    if failure.filepath is not None:
        properties = {"file": failure.filepath, **properties}
    written = ",".join(
        f"{name}={_escape(visible(value), of_property=True)}" for name, value in properties.items()
    )
    message = _escape("\n".join(summarize(failure)) or "failed")
    click.echo(f"::{level} {written}::{message}")


def _escape(text: str, *, of_property: bool = False) -> str:
    replaced = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return replaced.replace(":", "%3A").replace(",", "%2C") if of_property else replaced


def _make_table(status: str, failures: Sequence[FailedTest]) -> str:
    """Return an HTML table; in Markdown, test names could add markup, mentions and links."""
    if not failures:
        return ""
    rows = ""
    shown = 0
    for failure in failures[:MAX_SHOWN]:
        message = "<br>".join(html.escape(line) for line in summarize(failure))
        name = html.escape(visible(failure.test_name))
        row = f"<tr><td><code>{name}</code></td><td><code>{message}</code></td></tr>\n"
        if len(rows) + len(row) > _MAX_SUMMARY_BYTES:
            break
        rows += row
        shown += 1
    more = f"\nand {len(failures) - shown:,} more\n" if shown < len(failures) else ""
    return (
        f"<p>{len(failures):,} failed, {html.escape(visible(status))}</p>\n"
        f"<table>\n<tr><th>test</th><th>message</th></tr>\n{rows}</table>\n{more}\n"
    )
