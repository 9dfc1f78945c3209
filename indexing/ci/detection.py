"""Detects the CI system by the variable that each one sets for this purpose."""

from __future__ import annotations

from indexing.ci import buildkite, circleci, github, gitlab, jenkins
from indexing.ci.facts import Environment, JobFacts, stated


def find_event_file(environment: Environment) -> str | None:
    """Return the path of the CI's event file, if there is one."""
    return stated(environment, "GITHUB_EVENT_PATH") if _is_github(environment) else None


def find_job(environment: Environment, event: str | None = None) -> JobFacts | None:
    """Return the facts of the CI job of this environment; `None` outside of CI.

    `event` is the text of the file from `find_event_file`. Jenkins comes last, because its agents
    may run within machines of other CI systems.
    """
    if _is_github(environment):
        return github.read_job(environment, event)
    for variable, read_job in (
        ("GITLAB_CI", gitlab.read_job),
        ("CIRCLECI", circleci.read_job),
        ("BUILDKITE", buildkite.read_job),
        ("JENKINS_URL", jenkins.read_job),
    ):
        if stated(environment, variable):
            return read_job(environment)
    return None


def _is_github(environment: Environment) -> bool:
    return stated(environment, "GITHUB_ACTIONS") == "true"
