"""A job of CircleCI: https://circleci.com/docs/reference/variables/."""

from __future__ import annotations

from indexing.ci.facts import (
    Environment,
    JobFacts,
    number_in,
    pull_of_page,
    repository_of_path,
    repository_of_remote,
    stated,
    tag_branch,
)
from indexing.job_urls import read_job_url


def read_job(environment: Environment) -> JobFacts:
    """Read the variables of a job.

    CircleCI states no name of the workflow, and its id differs in every run, so the job's name is
    the pipeline's name too. A rerun is a new workflow: there are no attempts. `CIRCLE_BRANCH` is
    `pull/17` for the pull request of a fork.
    """
    # One branch may be the head of several pull requests; the first is the newest.
    pages = stated(environment, "CIRCLE_PULL_REQUEST", "CIRCLE_PULL_REQUESTS")
    page = pages.partition(",")[0] if pages else None
    owner = stated(environment, "CIRCLE_PROJECT_USERNAME")
    name = stated(environment, "CIRCLE_PROJECT_REPONAME")
    repository = repository_of_path(f"{owner}/{name}") if owner and name else None
    job = stated(environment, "CIRCLE_JOB")
    return JobFacts(
        ci="CircleCI",
        repository=repository or repository_of_remote(stated(environment, "CIRCLE_REPOSITORY_URL")),
        branch=stated(environment, "CIRCLE_BRANCH")
        or tag_branch(stated(environment, "CIRCLE_TAG")),
        commit=stated(environment, "CIRCLE_SHA1"),
        pipeline=job,
        job=job,
        run_id=stated(environment, "CIRCLE_WORKFLOW_ID", "CIRCLE_BUILD_NUM"),
        pull_number=number_in(environment, "CIRCLE_PR_NUMBER") or pull_of_page(page)[1],
        job_url=read_job_url(stated(environment, "CIRCLE_BUILD_URL")),
        workspace=_find_workspace(environment),
    )


def _find_workspace(environment: Environment) -> str | None:
    """Return the working directory; CircleCI writes the home directory as `~`."""
    folder, home = stated(environment, "CIRCLE_WORKING_DIRECTORY"), stated(environment, "HOME")
    return home + folder[1:] if folder and home and folder.startswith("~") else folder
