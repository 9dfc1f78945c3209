"""A build of Jenkins: `/env-vars.html` of any Jenkins lists the variables."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

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
from indexing.job_urls import read_job_url

# Prefixes that the git plugin adds to a branch checked out from its remote.
_REF_PREFIXES: Final = ("refs/remotes/origin/", "refs/heads/", "remotes/origin/", "origin/")
# Its placeholder when a commit is checked out without a branch.
_DETACHED: Final = "detached"
# Stages that Jenkins adds itself, such as `Declarative: Post Actions`.
_OWN_STAGE: Final = "Declarative: "


def read_job(environment: Environment) -> JobFacts:
    """Read the variables of a freestyle job, a pipeline, or a branch of a multibranch project.

    If Jenkins merges a pull request before the build, the commit is the merge: Jenkins does not
    state the head.
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
        base_branch=stated(environment, "CHANGE_TARGET"),
        commit=stated(environment, "GIT_COMMIT"),
        pipeline=pipeline,
        job=pipeline if stage is None or stage.startswith(_OWN_STAGE) else stage,
        # A build number alone repeats in every branch of a multibranch project.
        run_id=stated(environment, "BUILD_TAG", "BUILD_ID", "BUILD_NUMBER"),
        pull_number=number_in(environment, "CHANGE_ID") or page_number,
        job_url=read_job_url(stated(environment, "BUILD_URL")),
        workspace=stated(environment, "WORKSPACE"),
        notes=notes,
    )


def _find_pipeline(environment: Environment) -> str | None:
    """Return the project's name; in a multibranch project, its last part is the branch.

    Jenkins encodes that part, and shortens names only for directories on disk:
    https://github.com/jenkinsci/branch-api-plugin, NameEncoder.java. No other variable tells the
    branch from the name of a job: any job may have a parameter `BRANCH_NAME` or `TAG_NAME`.
    """
    name = stated(environment, "JOB_NAME")
    branch = stated(environment, "BRANCH_NAME")
    if name is not None and branch is not None:
        project, _, last = name.rpartition("/")
        if project and unquote(last) == branch:
            return project
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
    for prefix in _REF_PREFIXES:
        if branch.startswith(prefix):
            return branch.removeprefix(prefix) or None
    return branch
