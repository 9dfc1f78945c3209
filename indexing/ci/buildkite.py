"""A job of Buildkite: https://buildkite.com/docs/pipelines/configure/environment-variables."""

from __future__ import annotations

from indexing.ci.facts import (
    Environment,
    JobFacts,
    fork_branch,
    number_in,
    repository_of_remote,
    stated,
    tag_branch,
)
from indexing.job_urls import read_job_url


def read_job(environment: Environment) -> JobFacts:
    """Read the variables of a job; Buildkite counts retries from 0, so the attempt is one more."""
    repository = repository_of_remote(stated(environment, "BUILDKITE_REPO"))
    notes = []
    if repository is None:
        notes.append("BUILDKITE_REPO: does not end in owner/repository")
    commit = stated(environment, "BUILDKITE_COMMIT")
    if commit == "HEAD":
        commit = None
        notes.append("BUILDKITE_COMMIT: HEAD is whatever the branch was when it was checked out")
    retries = number_in(environment, "BUILDKITE_RETRY_COUNT") or 0
    return JobFacts(
        ci="Buildkite",
        repository=repository,
        branch=_find_branch(environment),
        base_branch=stated(
            environment, "BUILDKITE_PULL_REQUEST_BASE_BRANCH", "BUILDKITE_MERGE_QUEUE_BASE_BRANCH"
        ),
        commit=commit,
        pipeline=stated(environment, "BUILDKITE_PIPELINE_SLUG"),
        job=_find_job(environment),
        run_id=stated(environment, "BUILDKITE_BUILD_ID"),
        attempt=retries + 1,
        pull_number=number_in(environment, "BUILDKITE_PULL_REQUEST"),
        job_url=_find_url(environment),
        workspace=stated(environment, "BUILDKITE_BUILD_CHECKOUT_PATH"),
        notes=tuple(notes),
    )


def _find_job(environment: Environment) -> str | None:
    names = ["BUILDKITE_LABEL", "BUILDKITE_STEP_KEY"]
    if stated(environment, "BUILDKITE_PARALLEL_JOB_COUNT"):
        # Shards are one job. A label may have the number of its shard, which `%n` stands for.
        names.reverse()
    return stated(environment, *names)


def _find_url(environment: Environment) -> str | None:
    build = stated(environment, "BUILDKITE_BUILD_URL")
    job = stated(environment, "BUILDKITE_JOB_ID")
    return read_job_url(f"{build}#{job}" if build and job else build)


def _find_branch(environment: Environment) -> str | None:
    tag = tag_branch(stated(environment, "BUILDKITE_TAG"))
    branch = stated(environment, "BUILDKITE_BRANCH")
    if tag is not None or branch is None:
        return tag
    base = repository_of_remote(stated(environment, "BUILDKITE_REPO"))
    head = repository_of_remote(stated(environment, "BUILDKITE_PULL_REQUEST_REPO"))
    if head is not None and (base is None or head.key != base.key):
        return fork_branch(head.owner, branch)
    return branch
