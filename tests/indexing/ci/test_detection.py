"""CI environments, as the CIs document them, and what is detected about the run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.ci.detection import find_event_file, find_job
from indexing.ci.facts import JobFacts
from tests.indexing.ci.environments import (
    BUILDKITE,
    CIRCLECI,
    GITHUB,
    GITHUB_PULL,
    GITLAB,
    JENKINS,
    WIDGETS,
    find,
)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (GITHUB, JobFacts("GitHub Actions", pipeline="Tests", run_id="7001", attempt=2)),
        (GITLAB, JobFacts("GitLab CI", pipeline=".gitlab-ci.yml", run_id="7001")),
        (
            JENKINS,
            JobFacts(
                "Jenkins",
                pipeline="folder/tests",
                job="folder/tests",
                run_id="jenkins-folder-tests-42",
            ),
        ),
        (CIRCLECI, JobFacts("CircleCI", pipeline="unit", run_id=CIRCLECI["CIRCLE_WORKFLOW_ID"])),
        (BUILDKITE, JobFacts("Buildkite", pipeline="tests", run_id="build-7001", attempt=2)),
    ],
    ids=lambda value: value.ci if isinstance(value, JobFacts) else "",
)
def test_a_push_to_a_branch_is_known_whole(environment: dict[str, str], expected: JobFacts) -> None:
    facts = find(environment)
    assert (facts.repository, facts.branch, facts.commit) == (WIDGETS, "feature/x", "c0ffee")
    assert facts.job == (expected.job or "unit")
    for name in ("ci", "pipeline", "run_id", "attempt", "pull_number", "pull", "notes"):
        assert getattr(facts, name) == getattr(expected, name), name


@pytest.mark.parametrize(
    ("environment", "base"),
    [
        (GITHUB_PULL, "main"),
        (GITHUB | {"GITHUB_BASE_REF": ""}, None),
        (GITLAB | {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "next"}, "next"),
        (GITLAB | {"CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME": "next"}, "next"),
        (JENKINS | {"CHANGE_TARGET": "next"}, "next"),
        (BUILDKITE | {"BUILDKITE_PULL_REQUEST_BASE_BRANCH": "next"}, "next"),
        (BUILDKITE | {"BUILDKITE_PULL_REQUEST_BASE_BRANCH": ""}, None),
        (BUILDKITE | {"BUILDKITE_MERGE_QUEUE_BASE_BRANCH": "next"}, "next"),
        (CIRCLECI, None),
    ],
)
def test_the_base_of_a_pull_request_is_known_where_the_ci_states_it(
    environment: dict[str, str], base: str | None
) -> None:
    assert find(environment).base_branch == base


@pytest.mark.parametrize(
    ("environment", "workspace"),
    [
        (GITHUB, None),
        (GITHUB | {"GITHUB_WORKSPACE": "/home/runner/work/w/w"}, "/home/runner/work/w/w"),
        (GITLAB | {"CI_PROJECT_DIR": "/builds/acme/widgets"}, "/builds/acme/widgets"),
        (JENKINS | {"WORKSPACE": "/var/jenkins/tests"}, "/var/jenkins/tests"),
        (BUILDKITE | {"BUILDKITE_BUILD_CHECKOUT_PATH": "/builds/w"}, "/builds/w"),
        (CIRCLECI | {"CIRCLE_WORKING_DIRECTORY": "~/p", "HOME": "/home/c"}, "/home/c/p"),
        (CIRCLECI | {"CIRCLE_WORKING_DIRECTORY": "~", "HOME": "/home/c"}, "/home/c"),
        (CIRCLECI | {"CIRCLE_WORKING_DIRECTORY": "/w/p", "HOME": "/home/c"}, "/w/p"),
    ],
)
def test_the_folder_of_the_repository_is_known(
    environment: dict[str, str], workspace: str | None
) -> None:
    assert find(environment).workspace == workspace


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        (GITHUB, "https://code.example/acme/widgets/actions/runs/7001/attempts/2"),
        (GITLAB, "https://code.example/acme/widgets/-/jobs/7"),
        (JENKINS, "https://jenkins.acme.example/job/tests/42/"),
        (CIRCLECI, "https://circle.example/acme/widgets/42"),
        (BUILDKITE, "https://kite.example/acme/tests/builds/7#job-1"),
    ],
)
def test_the_page_of_the_job_is_known(environment: dict[str, str], url: str) -> None:
    assert find(environment).job_url == url


@pytest.mark.parametrize("environment", [GITHUB, GITLAB, JENKINS, CIRCLECI, BUILDKITE])
def test_a_page_that_is_no_link_is_left_out(environment: dict[str, str]) -> None:
    hostile = {
        name: value.replace("https://", "https://token:secret@") if "URL" in name else value
        for name, value in environment.items()
    }
    assert find(hostile).job_url is None


def test_outside_of_any_ci_nothing_is_known() -> None:
    assert find_job({}) is None
    assert find_job({"CI": "true", "GITHUB_ACTIONS": "false", "GITLAB_CI": ""}) is None
    assert find_event_file({"GITHUB_EVENT_PATH": "/etc/passwd"}) is None
    assert find_event_file(GITHUB) == GITHUB["GITHUB_EVENT_PATH"]


def test_jenkins_on_a_machine_of_another_ci_does_not_hide_it() -> None:
    for other in (GITHUB, GITLAB, CIRCLECI, BUILDKITE):
        assert find(JENKINS | other).ci == find(other).ci


@pytest.mark.parametrize(
    ("environment", "name", "value"),
    [
        # The first try.
        (BUILDKITE | {"BUILDKITE_RETRY_COUNT": ""}, "attempt", 1),
        (BUILDKITE | {"BUILDKITE_RETRY_COUNT": "0"}, "attempt", 1),
        (BUILDKITE | {"BUILDKITE_JOB_ID": ""}, "job_url", BUILDKITE["BUILDKITE_BUILD_URL"]),
        (CIRCLECI | {"CIRCLE_WORKFLOW_ID": ""}, "run_id", "42"),
        (GITHUB | {"GITHUB_SHA": " c0ffee\n"}, "commit", "c0ffee"),
        (GITHUB | {"GITHUB_RUN_ATTEMPT": "0"}, "attempt", None),
        (GITHUB | {"GITHUB_RUN_ATTEMPT": str(2**63)}, "attempt", None),
        (JENKINS | {"BUILD_TAG": ""}, "run_id", "42"),
    ],
)
def test_a_fact_is_found_or_left_out_without_its_usual_variable(
    environment: dict[str, str], name: str, value: object
) -> None:
    assert getattr(find(environment), name) == value


def test_the_repository_on_circleci_may_only_be_in_its_address() -> None:
    address = {
        "CIRCLE_PROJECT_REPONAME": "",
        "CIRCLE_REPOSITORY_URL": "git@github.com:acme/widgets.git",
    }
    assert find(CIRCLECI | address).repository == WIDGETS


@given(
    st.sampled_from([GITHUB_PULL, GITLAB, JENKINS, CIRCLECI, BUILDKITE]),
    st.data(),
    st.text(st.characters(exclude_characters="\0"), max_size=30) | st.just("false"),
    st.none() | st.text(max_size=20) | st.sampled_from(['{"pull_request": {"number": 1}}', "[]"]),
)
def test_any_variable_may_hold_anything_or_be_missing(
    environment: dict[str, str], data: st.DataObject, text: str, event: str | None
) -> None:
    name = data.draw(st.sampled_from(sorted(environment)[1:]))
    without = {key: value for key, value in environment.items() if key != name}
    for changed in (without, environment | {name: text}):
        facts = find_job(changed, event)
        assert facts is None or facts.ci


def test_tags_and_queues_are_no_branches_of_that_name() -> None:
    assert find(GITHUB | {"GITHUB_REF": "refs/tags/main"}).branch == "refs/tags/main"
    queued = "gh-readonly-queue/main/pr-17-c0ffee"
    assert find(GITHUB | {"GITHUB_REF": f"refs/heads/{queued}"}).branch == queued
    gitlab = GITLAB | {"CI_COMMIT_BRANCH": "", "CI_COMMIT_TAG": "v1", "CI_COMMIT_REF_NAME": "v1"}
    assert find(gitlab).branch == "refs/tags/v1"
    assert find(JENKINS | {"TAG_NAME": "v1", "BRANCH_NAME": "v1"}).branch == "refs/tags/v1"
    assert find(CIRCLECI | {"CIRCLE_BRANCH": "", "CIRCLE_TAG": "v1"}).branch == "refs/tags/v1"
    buildkite = BUILDKITE | {"BUILDKITE_BRANCH": "v1", "BUILDKITE_TAG": "v1"}
    assert find(buildkite).branch == "refs/tags/v1"


GITLAB_MERGE = GITLAB | {
    "CI_COMMIT_BRANCH": "",
    "CI_COMMIT_REF_NAME": "refs/merge-requests/17/merge",
    "CI_MERGE_REQUEST_IID": "17",
    "CI_MERGE_REQUEST_PROJECT_PATH": "acme/widgets",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "acme/widgets",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "main",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "0ddba11",
}


def test_a_merge_request_on_gitlab_is_its_head_also_from_a_fork() -> None:
    facts = find(GITLAB_MERGE)
    assert (facts.branch, facts.commit, facts.pull_number) == ("main", "0ddba11", 17)
    fork = {
        "CI_PROJECT_PATH": "group/mona/widgets",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "group/mona/widgets",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "",
    }
    facts = find(GITLAB_MERGE | fork)
    assert (facts.repository, facts.branch) == (WIDGETS, "group/mona:main")
    assert (facts.commit, facts.pull_number) == ("c0ffee", 17)


def test_a_pull_request_of_an_external_repository_on_gitlab_is_its_head() -> None:
    external = GITLAB | {
        "CI_COMMIT_BRANCH": "",
        "CI_EXTERNAL_PULL_REQUEST_IID": "17",
        "CI_EXTERNAL_PULL_REQUEST_SOURCE_REPOSITORY": "mona/widgets",
        "CI_EXTERNAL_PULL_REQUEST_TARGET_REPOSITORY": "acme/widgets",
        "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_NAME": "main",
        "CI_EXTERNAL_PULL_REQUEST_SOURCE_BRANCH_SHA": "0ddba11",
    }
    facts = find(external)
    assert (facts.branch, facts.commit, facts.pull_number) == ("mona:main", "0ddba11", 17)
    same = external | {"CI_EXTERNAL_PULL_REQUEST_SOURCE_REPOSITORY": "acme/widgets"}
    assert find(same).branch == "main"


def test_gitlab_shards_are_one_job_and_a_matrix_is_many() -> None:
    assert find(GITLAB | {"CI_JOB_NAME": "rspec 2/5", "CI_NODE_TOTAL": "5"}).job == "rspec"
    assert find(GITLAB | {"CI_JOB_NAME": "rspec  2/5", "CI_NODE_TOTAL": "5"}).job == "rspec"
    no_shard = GITLAB | {"CI_JOB_NAME": "rspec linux/5", "CI_NODE_TOTAL": "5"}
    assert find(no_shard).job == "rspec linux/5"
    assert find(GITLAB | {"CI_JOB_NAME": "rspec 2/5", "CI_NODE_TOTAL": "6"}).job == "rspec 2/5"
    matrix = GITLAB | {"CI_JOB_NAME": "rspec: [a, b]", "CI_NODE_TOTAL": "4"}
    assert find(matrix).job == "rspec: [a, b]"
    assert find(GITLAB | {"CI_PIPELINE_NAME": "Nightly"}).pipeline == "Nightly"


def test_buildkite_shards_are_one_job_if_their_step_has_a_key() -> None:
    assert find(BUILDKITE | {"BUILDKITE_LABEL": "specs"}).job == "specs"
    shard = BUILDKITE | {"BUILDKITE_LABEL": "specs 1/5", "BUILDKITE_PARALLEL_JOB_COUNT": "5"}
    assert find(shard).job == "unit-step"
    assert find(shard | {"BUILDKITE_STEP_KEY": ""}).job == "specs 1/5"


def test_a_project_of_a_subgroup_is_not_mistaken_for_another() -> None:
    facts = find(GITLAB | {"CI_PROJECT_PATH": "acme/tools/widgets"})
    assert facts.repository is None
    assert "subgroup" in facts.notes[0]


def test_a_multibranch_project_of_jenkins_is_one_pipeline_whatever_the_branch() -> None:
    branch = JENKINS | {"JOB_NAME": "widgets/feature%2Fx", "BRANCH_NAME": "feature/x"}
    change = JENKINS | {
        "JOB_NAME": "widgets/PR-17",
        "BRANCH_NAME": "PR-17",
        "GIT_BRANCH": "PR-17",
        "CHANGE_ID": "17",
        "CHANGE_BRANCH": "main",
        "CHANGE_FORK": "mona",
        "CHANGE_URL": "https://git.acme.example/acme/widgets/pull/17",
        "GIT_URL": "https://token@git.acme.example/mona/widgets.git",
        "STAGE_NAME": "unit",
    }
    assert (find(branch).pipeline, find(branch).branch) == ("widgets", "feature/x")
    facts = find(change)
    assert (facts.pipeline, facts.job) == ("widgets", "unit")
    assert (facts.repository, facts.branch, facts.pull_number) == (WIDGETS, "mona:main", 17)
    assert find(change | {"CHANGE_FORK": "mona/gadgets"}).branch == "mona:main"
    own_stage = change | {"STAGE_NAME": "Declarative: Post Actions"}
    assert find(own_stage).job == "widgets"


@pytest.mark.parametrize(
    ("job", "branch", "pipeline"),
    [
        ("folder/tests", "feature/x", "folder/tests"),
        ("folder/tests", "main", "folder/tests"),
        ("tests", "tests", "tests"),
        ("folder/widgets/main", "main", "folder/widgets"),
        ("widgets/a%2Fb%25c%23%3F%5B%5D%5Cé+d", "a/b%c#?[]\\é+d", "widgets"),
        ("widgets/" + "long-" * 20, "long-" * 20, "widgets"),
    ],
)
def test_a_job_of_jenkins_may_have_a_parameter_with_the_name_of_a_branch(
    job: str, branch: str, pipeline: str
) -> None:
    assert find(JENKINS | {"JOB_NAME": job, "BRANCH_NAME": branch}).pipeline == pipeline


@pytest.mark.parametrize(
    ("stated", "branch"),
    [
        ("refs/remotes/origin/main", "main"),
        ("origin/feature/x", "feature/x"),
        ("feature/x", "feature/x"),
        ("detached", None),
    ],
)
def test_jenkins_names_branches_by_their_remote(stated: str, branch: str | None) -> None:
    assert find(JENKINS | {"GIT_BRANCH": stated}).branch == branch


def test_pull_requests_on_circleci_are_found_by_their_url() -> None:
    page = "https://github.com/acme/widgets/pull/17"
    same = find(CIRCLECI | {"CIRCLE_PULL_REQUESTS": f"{page},{page}8"})
    assert (same.branch, same.pull_number) == ("feature/x", 17)
    fork = CIRCLECI | {"CIRCLE_BRANCH": "pull/18", "CIRCLE_PR_NUMBER": "18"}
    assert (find(fork).branch, find(fork).pull_number) == ("pull/18", 18)


@pytest.mark.parametrize("branch", ["main", "mona:main"])
def test_a_fork_on_buildkite_is_found_by_its_url(branch: str) -> None:
    fork = BUILDKITE | {
        "BUILDKITE_BRANCH": branch,
        "BUILDKITE_PULL_REQUEST": "17",
        "BUILDKITE_PULL_REQUEST_REPO": "https://github.com/mona/widgets.git",
    }
    facts = find(fork)
    assert (facts.repository, facts.branch, facts.pull_number) == (WIDGETS, "mona:main", 17)
    same = fork | {"BUILDKITE_PULL_REQUEST_REPO": "https://github.com/Acme/widgets"}
    assert find(same).branch == branch
    # The address of the repository itself has another form.
    assert find(fork | {"BUILDKITE_REPO": "/srv/git/widgets.git"}).branch == "mona:main"


def test_a_commit_that_is_only_called_head_is_not_used() -> None:
    facts = find(BUILDKITE | {"BUILDKITE_COMMIT": "HEAD"})
    assert facts.commit is None
    assert "BUILDKITE_COMMIT" in facts.notes[0]


def test_no_note_repeats_an_address_that_may_hold_a_credential() -> None:
    remote = "https://user:s3cret@git.acme.example/a/b/c.git"
    for environment in (JENKINS | {"GIT_URL": remote}, BUILDKITE | {"BUILDKITE_REPO": remote}):
        facts = find(environment)
        assert facts.repository is None
        assert facts.notes
        assert "s3cret" not in repr(facts)
