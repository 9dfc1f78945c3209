"""Which CI a process runs in, told by the variable that each one sets for this very question."""

from __future__ import annotations

from indexing.ci import buildkite, circleci, github, gitlab, jenkins
from indexing.ci.facts import Environment, JobFacts, stated


def find_event_file(environment: Environment) -> str | None:
    """Give the path of the file that the CI describes its event in, where it has one."""
    return stated(environment, "GITHUB_EVENT_PATH") if _is_github(environment) else None


def find_job(environment: Environment, event: str | None = None) -> JobFacts | None:
    """Give what is known of the CI job that this environment is of; `None` outside of any.

    `event` is the text of the file that `find_event_file` named. Jenkins comes last: its agents
    are the ones that run within other systems' machines.
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
