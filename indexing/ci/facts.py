"""What was found of a CI job, and the small readings that every CI shares; knows no CI by name."""

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
# two segments: a deeper path cannot be told from another repository of the same last name.
_REMOTE: Final = re.compile(
    r"(?:[a-z][a-z0-9+.\-]*://[^/]+/|(?:[^/@]+@)?[^/:]+:/?)([^/]+/[^/]+?)(?:\.git)?/?"
)
# The page of a pull request at GitHub and Gitea, Bitbucket, GitLab.
_PULL_PAGE: Final = re.compile(
    r"https?://[^/]+/([^/]+/[^/]+)(?:/-)?/(?:pulls?|pull-requests|merge_requests)/([0-9]{1,19})/?"
)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the environment of one CI job tells; `None` where it does not.

    `branch` is the head of a pull request, as `owner:branch` where that comes from a fork, and
    `refs/tags/…` for a tag: so neither is ever taken for a branch of the repository. `commit` is
    the pull request's own head and not its merge with the base, wherever the CI tells the two
    apart. `notes` say why something that stands there was not used; they show no value, since
    addresses can hold credentials.
    """

    ci: str
    repository: RepositoryName | None = None
    branch: str | None = None
    commit: str | None = None
    pipeline: str | None = None
    job: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    pull_number: int | None = None
    pull: PullRequest | None = None
    notes: tuple[str, ...] = ()


def stated(environment: Environment, *variables: str) -> str | None:
    """Give the first of the variables that says anything."""
    for variable in variables:
        value = environment.get(variable, "").strip()
        if value:
            return value
    return None


def number_in(environment: Environment, variable: str) -> int | None:
    """Give the whole number in a variable; `None` for `false`, for text and where there is none."""
    text = stated(environment, variable)
    return _to_number(text) if text and _NUMBER.fullmatch(text) else None


def tag_branch(tag: str | None) -> str | None:
    """Give what stands for the branch of a tag: its whole ref, which no branch is called."""
    return None if tag is None else f"refs/tags/{tag}"


def fork_branch(owner: str, branch: str) -> str:
    """Give the branch of a fork as hosts write it, so that a fork's `main` is not ours."""
    return branch if branch.startswith(f"{owner}:") else f"{owner}:{branch}"


def repository_of_path(path: str | None) -> RepositoryName | None:
    """Give the repository that `owner/name` names; `None` for what is not of that form."""
    if path is None:
        return None
    try:
        return parse_repository(path)
    except InvalidValueError:
        return None


def repository_of_remote(url: str | None) -> RepositoryName | None:
    """Give the repository that a git remote's address ends with."""
    match = _REMOTE.fullmatch(url) if url else None
    return repository_of_path(match[1]) if match else None


def pull_of_page(url: str | None) -> tuple[RepositoryName | None, int | None]:
    """Give the repository and the number of the pull request whose page has this address."""
    match = _PULL_PAGE.fullmatch(url) if url else None
    return (repository_of_path(match[1]), _to_number(match[2])) if match else (None, None)


def _to_number(text: str) -> int | None:
    number = int(text)
    return number if 0 < number <= MAX_INTEGER else None
