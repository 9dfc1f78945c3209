"""The facts of a CI job, and the small parsers that all CI systems share. Names no CI system."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from indexing.errors import InvalidValueError
from indexing.identifiers import MAX_INTEGER
from indexing.models.executions import PullRequest
from indexing.names import RepositoryName, parse_repository

Environment = Mapping[str, str]

_NUMBER: Final = re.compile(r"[0-9]{1,19}")

# `https://host/owner/name.git`, `ssh://git@host:22/owner/name`, `git@host:owner/name.git`. Exactly
# two segments: with a deeper path, two repositories with the same last segments would look alike.
_REMOTE: Final = re.compile(
    r"(?:[a-z][a-z0-9+.\-]*://[^/]+/|(?:[^/@]+@)?[^/:]+:/?)([^/]+/[^/]+?)(?:\.git)?/?"
)
# The URL of a pull request at GitHub and Gitea, Bitbucket, GitLab.
_PULL_PAGE: Final = re.compile(
    r"https?://[^/]+/([^/]+/[^/]+)(?:/-)?/(?:pulls?|pull-requests|merge_requests)/([0-9]{1,19})/?"
)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts of one CI job; `None` where the environment does not state them.

    `branch` is the head of a pull request, as `owner:branch` if it comes from a fork, and
    `refs/tags/…` for a tag, so neither can be mistaken for a branch of the repository.
    `base_branch` is the branch that the pull request or merge queue is for. `commit` is the pull
    request's own head, not its merge with the base, if the CI distinguishes them. `workspace` is
    the working folder of the job, into which the repository is usually checked out. `notes` say why
    a variable was not used; they show no value, since addresses can hold credentials.
    """

    ci: str
    repository: RepositoryName | None = None
    branch: str | None = None
    base_branch: str | None = None
    commit: str | None = None
    pipeline: str | None = None
    job: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    pull_number: int | None = None
    pull: PullRequest | None = None
    job_url: str | None = None
    workspace: str | None = None
    notes: tuple[str, ...] = ()


def stated(environment: Environment, *variables: str) -> str | None:
    """Return the first of the variables that is not blank."""
    for variable in variables:
        value = environment.get(variable, "").strip()
        if value:
            return value
    return None


def number_in(environment: Environment, variable: str) -> int | None:
    """Return the whole number in a variable; `None` for `false`, other text, or no value."""
    text = stated(environment, variable)
    return _to_number(text) if text and _NUMBER.fullmatch(text) else None


def tag_branch(tag: str | None) -> str | None:
    """Return the full ref of a tag in place of a branch; no branch has such a name."""
    return None if tag is None else f"refs/tags/{tag}"


def fork_branch(owner: str, branch: str) -> str:
    """Return a fork's branch as code hosts write it, so that a fork's `main` is not ours."""
    return branch if branch.startswith(f"{owner}:") else f"{owner}:{branch}"


def repository_of_path(path: str | None) -> RepositoryName | None:
    """Parse `owner/name`; return `None` for other forms."""
    if path is None:
        return None
    try:
        return parse_repository(path)
    except InvalidValueError:
        return None


def repository_of_remote(url: str | None) -> RepositoryName | None:
    """Return the repository at the end of a git remote's address."""
    match = _REMOTE.fullmatch(url) if url else None
    return repository_of_path(match[1]) if match else None


def pull_of_page(url: str | None) -> tuple[RepositoryName | None, int | None]:
    """Return the repository and the number of the pull request with this URL."""
    match = _PULL_PAGE.fullmatch(url) if url else None
    return (repository_of_path(match[1]), _to_number(match[2])) if match else (None, None)


def _to_number(text: str) -> int | None:
    number = int(text)
    return number if 0 < number <= MAX_INTEGER else None
