"""Finds the run whose reports a command reads, in the options or the environment of the CI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from indexing.ci.detection import find_event_file, find_job
from indexing.ci.facts import JobFacts
from indexing.errors import InvalidValueError
from indexing.ingest.junit import check_run
from indexing.models.executions import PullRequest, Run
from indexing.names import RepositoryName
from service.cli.output import visible
from service.cli.parameters import read_event

# A run requires these values, each from an option or from the CI environment.
_NEEDED: Final = ("repository", "branch", "commit", "pipeline", "job", "run_id")


def option_of(name: str) -> str:
    """Return the command-line option of a parameter."""
    return "--" + name.replace("_", "-")


def find_ci_job() -> JobFacts | None:
    """Read the CI job from the environment and its event file; return None outside of a CI."""
    path = find_event_file(os.environ)
    event, note = None, None
    if path is not None:
        try:
            event = read_event(Path(path))
        except (OSError, UnicodeDecodeError, InvalidValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            note = f"GITHUB_EVENT_PATH: {reason}"
    facts = find_job(os.environ, event)
    if facts is not None and note is not None:
        return replace(facts, notes=(note, *facts.notes))
    return facts


def choose_repository(given: RepositoryName | None, facts: JobFacts | None) -> RepositoryName:
    """Return the repository from the options, else from the CI.

    Raises:
        click.UsageError: neither names a repository.
    """
    found = given or (facts.repository if facts else None)
    if found is None:
        raise _missing([option_of("repository")], facts)
    return found


def make_run(
    given: Mapping[str, Any], facts: JobFacts | None, missing: tuple[str, ...]
) -> tuple[RepositoryName, Run]:
    """Build the run, and print on standard error which values came from the CI.

    `given` maps option names to values, `None` for an omitted option; `missing` names other
    missing arguments.

    Raises:
        click.UsageError: a value is missing, or cannot be stored.
    """
    known: dict[str, Any] = {
        name: getattr(facts, name, None) if given[name] is None else given[name] for name in _NEEDED
    }
    lacking = [option_of(name) for name, value in known.items() if value is None]
    if missing or lacking:
        raise _missing([*missing, *lacking], facts)
    attempt: int | None = given["attempt"]
    pull: tuple[int | None, PullRequest | None] | None = given["pull_request"]
    job_url: str | None = None
    if facts is not None and _is_same_run(known, facts):
        attempt = attempt or facts.attempt
        pull = pull or (facts.pull_number, facts.pull)
        job_url = facts.job_url
    number, details = pull or (None, None)
    run = Run(
        run_id=known["run_id"],
        attempt=attempt or 1,
        pipeline_name=known["pipeline"],
        job_name=known["job"],
        branch=known["branch"],
        commit=known["commit"],
        pull_number=number,
        pull=details,
        job_url=job_url,
    )
    try:
        check_run(run)
    except InvalidValueError as error:
        raise click.UsageError(str(error)) from error
    if facts is not None:
        _print_found(facts, known, run)
    return known["repository"], run


def _is_same_run(known: Mapping[str, Any], facts: JobFacts) -> bool:
    """Whether this is the CI's own run; attempt and pull request of the CI belong to it only.

    The CI may not know its repository, such as a project of a GitLab subgroup.
    """
    own, repository = facts.repository, known["repository"]
    return known["run_id"] == facts.run_id and (own is None or own.key == repository.key)


def _print_found(facts: JobFacts, known: Mapping[str, Any], run: Run) -> None:
    found = [
        f"{name.replace('_id', '')} {known[name]}"
        for name in _NEEDED
        if known[name] == getattr(facts, name)
    ]
    if _is_same_run(known, facts):
        found.append(f"attempt {run.attempt}")
        if run.pull_number is not None:
            found.append(f"pull request {run.pull_number}")
    click.echo(visible(f"from {facts.ci}: {', '.join(found) or 'nothing'}"), err=True)
    for note in facts.notes:
        click.echo(visible(f"from {facts.ci}: ignored: {note}"), err=True)


def _missing(what: list[str], facts: JobFacts | None) -> click.UsageError:
    lines = [f"Missing {', '.join(what)}."]
    if facts is None:
        lines.append("No CI was detected from the environment.")
    else:
        lines.append(f"The environment of {facts.ci} does not provide them.")
        lines += [f"Ignored: {visible(note)}." for note in facts.notes]
    return click.UsageError("\n".join(lines))
