"""A build of Jenkins: `/env-vars.html` of any Jenkins lists the variables."""

from __future__ import annotations

from typing import Final

from indexing.ci.facts import (
    Environment,
    JobFacts,
    fork_branch,
    number_in,
    pull_of_page,
    repository_of_remote,
    stated,
    tag_branch,
)

# What the git plugin puts before a branch that it checked out by its remote.
_REMOTE_MARKS: Final = ("refs/remotes/origin/", "refs/heads/", "remotes/origin/", "origin/")
# What it says in place of a branch where a commit was checked out by itself.
_DETACHED: Final = "detached"
# Stages that Jenkins adds by itself, such as `Declarative: Post Actions`.
_OWN_STAGE: Final = "Declarative: "


def read_job(environment: Environment) -> JobFacts:
    """Read the variables of a freestyle job, a pipeline, or a branch of a multibranch project.

    A pull request that is merged before it is built has the merge for its commit: its head is
    not told.
    """
    page_repository, page_number = pull_of_page(stated(environment, "CHANGE_URL"))
    remote = stated(environment, "GIT_URL", "GIT_URL_1")
    repository = page_repository or repository_of_remote(remote)
    notes: tuple[str, ...] = ()
    if repository is None and remote is not None:
        notes = ("GIT_URL: does not end in owner/repository",)
    pipeline = _find_pipeline(environment)
    stage = stated(environment, "STAGE_NAME")
    return JobFacts(
        ci="Jenkins",
        repository=repository,
        branch=_find_branch(environment),
        commit=stated(environment, "GIT_COMMIT"),
        pipeline=pipeline,
        job=pipeline if stage is None or stage.startswith(_OWN_STAGE) else stage,
        # A number alone comes again in every branch of a multibranch project.
        run_id=stated(environment, "BUILD_TAG", "BUILD_ID", "BUILD_NUMBER"),
        pull_number=number_in(environment, "CHANGE_ID") or page_number,
        notes=notes,
    )


def _find_pipeline(environment: Environment) -> str | None:
    """Give the name of the project; in a multibranch one, the last part of it is the branch."""
    name = stated(environment, "JOB_NAME")
    if name is not None and stated(environment, "BRANCH_NAME"):
        return name.rpartition("/")[0] or name
    return name


def _find_branch(environment: Environment) -> str | None:
    change = stated(environment, "CHANGE_BRANCH")
    if change is not None:
        fork = stated(environment, "CHANGE_FORK")
        return change if fork is None else fork_branch(fork.partition("/")[0], change)
    tag = tag_branch(stated(environment, "TAG_NAME"))
    branch = tag or stated(environment, "BRANCH_NAME", "GIT_LOCAL_BRANCH", "GIT_BRANCH")
    if branch is None or branch == _DETACHED:
        return None
    for mark in _REMOTE_MARKS:
        if branch.startswith(mark):
            return branch.removeprefix(mark) or None
    return branch
