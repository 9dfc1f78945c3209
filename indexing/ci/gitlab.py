"""A job of GitLab CI: https://docs.gitlab.com/ci/variables/predefined_variables/."""

from __future__ import annotations

import re
from typing import Final

from indexing.ci.facts import (
    Environment,
    JobFacts,
    fork_branch,
    number_in,
    repository_of_path,
    stated,
    tag_branch,
)
from indexing.job_urls import read_job_url

# The suffix that `parallel: 5` adds to the name of a job.
_SHARD: Final = re.compile(r"\s+[0-9]+/[0-9]+")


def read_job(environment: Environment) -> JobFacts:
    """Read the variables of a job, including jobs of merge requests and external pull requests.

    GitLab does not name the author of the request (`GITLAB_USER_…` is the user who started the
    pipeline), so only its number is known.
    """
    path = stated(environment, "CI_MERGE_REQUEST_PROJECT_PATH", "CI_PROJECT_PATH")
    repository = repository_of_path(path)
    notes: tuple[str, ...] = ()
    if path is not None and repository is None:
        notes = ("CI_PROJECT_PATH: a project of a subgroup is not of the form owner/repository",)
    return JobFacts(
        ci="GitLab CI",
        repository=repository,
        branch=_find_branch(environment),
        base_branch=stated(
            environment,
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
            "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME",
        ),
        commit=stated(
            environment,
            # Set in pipelines of merged results, whose CI_COMMIT_SHA is the merge.
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA",
            "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_SHA",
            "CI_COMMIT_SHA",
        ),
        # A pipeline has a name only if `workflow:name` sets one; else use the path of its file.
        pipeline=stated(environment, "CI_PIPELINE_NAME", "CI_CONFIG_PATH"),
        job=_find_job(environment),
        run_id=stated(environment, "CI_PIPELINE_ID"),
        pull_number=number_in(environment, "CI_MERGE_REQUEST_IID")
        or number_in(environment, "CI_EXTERNAL_PULL_REQUEST_IID"),
        job_url=read_job_url(stated(environment, "CI_JOB_URL", "CI_PIPELINE_URL")),
        workspace=stated(environment, "CI_PROJECT_DIR"),
        notes=notes,
    )


def _find_branch(environment: Environment) -> str | None:
    for source, target, name in (
        (
            "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH",
            "CI_MERGE_REQUEST_PROJECT_PATH",
            "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
        ),
        (
            "CI_EXTERNAL_PULL_REQUEST_SOURCE_REPOSITORY",
            "CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY",
            "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_NAME",
        ),
    ):
        branch = stated(environment, name)
        if branch is not None:
            origin = stated(environment, source)
            if origin is not None and origin != stated(environment, target):
                return fork_branch(origin.rpartition("/")[0], branch)
            return branch
    return (
        stated(environment, "CI_COMMIT_BRANCH")
        or tag_branch(stated(environment, "CI_COMMIT_TAG"))
        or stated(environment, "CI_COMMIT_REF_NAME")
    )


def _find_job(environment: Environment) -> str | None:
    """Return the job's name without its shard number: a test may move between shards."""
    name = stated(environment, "CI_JOB_NAME")
    total = stated(environment, "CI_NODE_TOTAL")
    if name is not None and total is not None:
        return _without_shard(name, total)
    return name


def _without_shard(name: str, total: str) -> str:
    start = name.rfind(" ")
    if start > 0 and name.endswith(f"/{total}") and _SHARD.fullmatch(name, start):
        return name[:start].rstrip()
    return name
