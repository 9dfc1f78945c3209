"""Environments of a push to a branch in each CI, made up from its documentation; what is found."""

from __future__ import annotations

from typing import Any

import orjson

from indexing.ci.detection import find_job
from indexing.ci.facts import JobFacts
from indexing.names import RepositoryName

WIDGETS = RepositoryName("acme", "widgets")

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://code.example",
    "GITHUB_REPOSITORY": "acme/widgets",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_EVENT_PATH": "/github/workflow/event.json",
    "GITHUB_REF": "refs/heads/feature/x",
    "GITHUB_REF_NAME": "feature/x",
    "GITHUB_HEAD_REF": "",
    "GITHUB_SHA": "c0ffee",
    "GITHUB_WORKFLOW": "Tests",
    "GITHUB_JOB": "unit",
    "GITHUB_RUN_ID": "7001",
    "GITHUB_RUN_ATTEMPT": "2",
}
GITHUB_PULL = GITHUB | {
    "GITHUB_EVENT_NAME": "pull_request",
    "GITHUB_REF": "refs/pull/17/merge",
    "GITHUB_REF_NAME": "17/merge",
    "GITHUB_HEAD_REF": "main",
    "GITHUB_BASE_REF": "main",
}
GITLAB = {
    "GITLAB_CI": "true",
    "CI_PROJECT_PATH": "acme/widgets",
    "CI_COMMIT_BRANCH": "feature/x",
    "CI_COMMIT_REF_NAME": "feature/x",
    "CI_COMMIT_SHA": "c0ffee",
    "CI_CONFIG_PATH": ".gitlab-ci.yml",
    "CI_JOB_NAME": "unit",
    "CI_JOB_URL": "https://code.example/acme/widgets/-/jobs/7",
    "CI_PIPELINE_ID": "7001",
}
JENKINS = {
    "JENKINS_URL": "https://jenkins.acme.example/",
    "GIT_URL": "https://git.acme.example/acme/widgets.git",
    "GIT_BRANCH": "origin/feature/x",
    "GIT_COMMIT": "c0ffee",
    "JOB_NAME": "folder/tests",
    "BUILD_ID": "42",
    "BUILD_URL": "https://jenkins.acme.example/job/tests/42/",
    "BUILD_TAG": "jenkins-folder-tests-42",
}
CIRCLECI = {
    "CIRCLECI": "true",
    "CIRCLE_PROJECT_USERNAME": "acme",
    "CIRCLE_PROJECT_REPONAME": "widgets",
    "CIRCLE_BRANCH": "feature/x",
    "CIRCLE_SHA1": "c0ffee",
    "CIRCLE_JOB": "unit",
    "CIRCLE_WORKFLOW_ID": "00000000-0000-4000-8000-000000000001",
    "CIRCLE_BUILD_NUM": "42",
    "CIRCLE_BUILD_URL": "https://circle.example/acme/widgets/42",
}
BUILDKITE = {
    "BUILDKITE": "true",
    "BUILDKITE_REPO": "git@github.com:acme/widgets.git",
    "BUILDKITE_BRANCH": "feature/x",
    "BUILDKITE_COMMIT": "c0ffee",
    "BUILDKITE_PIPELINE_SLUG": "tests",
    "BUILDKITE_LABEL": "unit",
    "BUILDKITE_STEP_KEY": "unit-step",
    "BUILDKITE_BUILD_ID": "build-7001",
    "BUILDKITE_BUILD_URL": "https://kite.example/acme/tests/builds/7",
    "BUILDKITE_JOB_ID": "job-1",
    "BUILDKITE_RETRY_COUNT": "1",
    "BUILDKITE_PULL_REQUEST": "false",
    "BUILDKITE_PULL_REQUEST_REPO": "",
}


def pull_event(*, fork: str | None = "acme/widgets", ref: str = "main") -> dict[str, Any]:
    return {
        "action": "synchronize",
        "number": 17,
        "pull_request": {
            "id": 900,
            "number": 17,
            "title": "Mend the hinge",
            "user": {"id": 4, "login": "mona"},
            "head": {
                "ref": ref,
                "sha": "0ddba11",
                "user": {"login": "mona"},
                "repo": fork and {"full_name": fork},
            },
            "base": {"ref": "main", "sha": "ba5e", "repo": {"full_name": "acme/widgets"}},
        },
    }


def find(environment: dict[str, str], event: object = None) -> JobFacts:
    facts = find_job(environment, None if event is None else orjson.dumps(event).decode())
    assert facts is not None
    return facts
