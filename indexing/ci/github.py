"""A job of GitHub Actions, and of other runners that set the same variables.

https://docs.github.com/en/actions/reference/variables-reference
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from indexing.ci.facts import (
    Environment,
    JobFacts,
    fork_branch,
    number_in,
    repository_of_path,
    stated,
)
from indexing.ci.pull_requests import member_of, parse_event, read_pull_request
from indexing.errors import InvalidValueError
from indexing.job_urls import make_github_url
from indexing.models.executions import PullRequest

_PULL_REF: Final = re.compile(r"refs/(pull/([0-9]{1,18})/(?:merge|head))")
_BRANCH_REF: Final = "refs/heads/"

# A workflow that starts when another one ends runs on the default branch, whatever the branch of
# the workflow whose reports it handles.
_FOREIGN_EVENT: Final = "workflow_run"
# A comment on a pull request starts a workflow on the default branch too. Such a workflow has to
# check out the pull request itself, and the event has neither its branch nor its commit.
_COMMENT_EVENT: Final = "issue_comment"
# The event of a pull request. Its ref is that of the pull request until that is merged.
_PULL_EVENT: Final = "pull_request"


@dataclass(frozen=True, slots=True)
class _Head:
    """The branch and commit of a run."""

    branch: str | None = None
    commit: str | None = None
    pull_number: int | None = None
    pull: PullRequest | None = None
    note: str | None = None


def read_job(environment: Environment, event: str | None) -> JobFacts:
    """Read the variables; `event` is the text of the file at `GITHUB_EVENT_PATH`."""
    repository = repository_of_path(stated(environment, "GITHUB_REPOSITORY"))
    if stated(environment, "GITHUB_EVENT_NAME") == _FOREIGN_EVENT:
        note = (
            f"the event is {_FOREIGN_EVENT}: the reports are those of another run,"
            " which only the workflow knows"
        )
        return JobFacts("GitHub Actions", repository, notes=(note,))
    payload: object = None
    wrong: str | None = None
    try:
        payload = None if event is None else parse_event(event)
    except InvalidValueError as error:
        wrong = _note_wrong(error)
    head = _find_head(environment, payload, wrong)
    return JobFacts(
        ci="GitHub Actions",
        repository=repository,
        branch=head.branch,
        # The variable is set only for `pull_request` and `pull_request_target`; other events, such
        # as reviews, have a pull request too.
        base_branch=stated(environment, "GITHUB_BASE_REF")
        or _text(member_of(member_of(payload, "pull_request"), "base"), "ref")
        or _find_queue_base(payload),
        commit=head.commit,
        pipeline=stated(environment, "GITHUB_WORKFLOW"),
        job=stated(environment, "GITHUB_JOB"),
        run_id=stated(environment, "GITHUB_RUN_ID"),
        attempt=number_in(environment, "GITHUB_RUN_ATTEMPT"),
        pull_number=head.pull_number,
        pull=head.pull,
        job_url=_find_url(environment),
        workspace=stated(environment, "GITHUB_WORKSPACE"),
        notes=(head.note,) if head.note else (),
    )


def _note_wrong(error: InvalidValueError) -> str:
    return f"GITHUB_EVENT_PATH: {error}"


def _find_queue_base(payload: object) -> str | None:
    """Return the branch that the pull requests of GitHub's merge queue are for."""
    base = _text(member_of(payload, "merge_group"), "base_ref")
    if base is None or not base.startswith(_BRANCH_REF):
        return None
    return base.removeprefix(_BRANCH_REF) or None


def _find_url(environment: Environment) -> str | None:
    server, repository, run = (
        stated(environment, f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    if server is None or repository is None or run is None:
        return None
    attempt = number_in(environment, "GITHUB_RUN_ATTEMPT")
    return make_github_url(f"{server}/{repository}", run, attempt)


def _find_head(environment: Environment, payload: object, wrong: str | None) -> _Head:
    """Return the head of a run; `wrong` says what is wrong with its event, if that is malformed."""
    ref = stated(environment, "GITHUB_REF") or ""
    commit = stated(environment, "GITHUB_SHA")
    issue = member_of(payload, "issue")
    if (
        stated(environment, "GITHUB_EVENT_NAME") == _COMMENT_EVENT
        and member_of(issue, "pull_request") is not None
    ):
        note = (
            f"the event is {_COMMENT_EVENT}: the commit is that of the default branch, not that of"
            " the pull request"
        )
        return _Head(note=note)
    if stated(environment, "GITHUB_EVENT_NAME") == _PULL_EVENT and ref.startswith(_BRANCH_REF):
        # The pull request was merged: the run is on the branch it was merged into.
        number, pull = _find_pull(payload)
        return _Head(ref.removeprefix(_BRANCH_REF) or None, commit, number, pull)
    try:
        head = _head_of_event(payload)
    except InvalidValueError as error:
        wrong = _note_wrong(error)
    else:
        if head is not None:
            return head
    pull_ref = _PULL_REF.fullmatch(ref)
    if pull_ref is not None or stated(environment, "GITHUB_HEAD_REF"):
        # Without the event, the commit is that of the merge, and a fork's branch looks like one of
        # the repository. The ref of the pull request is unambiguous: no branch has that name.
        branch, number = (pull_ref[1], int(pull_ref[2])) if pull_ref else (None, None)
        return _Head(branch, commit, number, note=wrong or "GITHUB_EVENT_PATH: no pull request")
    branch = ref.removeprefix(_BRANCH_REF) or None
    return _Head(branch, commit, note=wrong)


def _find_pull(payload: object) -> tuple[int | None, PullRequest | None]:
    try:
        return read_pull_request(payload)
    except InvalidValueError:
        return None, None


def _head_of_event(payload: object) -> _Head | None:
    """Return the head of the pull request of an event; `None` if it is about none."""
    number, pull = read_pull_request(payload)
    request = member_of(payload, "pull_request")
    head = member_of(request, "head")
    ref, commit = _text(head, "ref"), _text(head, "sha")
    if number is None or ref is None or commit is None:
        return None
    head_repository = _text(member_of(head, "repo"), "full_name")
    base_repository = _text(member_of(member_of(request, "base"), "repo"), "full_name")
    if head_repository is None or head_repository != base_repository:
        # A deleted fork is null, but the event still names its owner.
        owner = (head_repository or "").partition("/")[0] or _text(member_of(head, "user"), "login")
        ref = fork_branch(owner or "fork", ref)
    return _Head(ref, commit, number, pull)


def _text(holder: object, name: str) -> str | None:
    value = member_of(holder, name)
    return value if isinstance(value, str) and value else None
