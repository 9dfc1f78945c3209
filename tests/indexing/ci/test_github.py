"""What is detected about a run of GitHub Actions, whose branch and commit depend on the event."""

from __future__ import annotations

import pytest

from indexing.ci.detection import find_job
from indexing.models.executions import PullRequest
from tests.indexing.ci.environments import GITHUB, GITHUB_PULL, WIDGETS, find, pull_event


def test_the_base_of_a_reviewed_pull_request_on_github_is_in_the_event() -> None:
    reviewed = GITHUB_PULL | {"GITHUB_EVENT_NAME": "pull_request_review", "GITHUB_BASE_REF": ""}
    event = {"pull_request": {"number": 17, "base": {"ref": "next"}}}
    assert find(reviewed, event).base_branch == "next"
    assert find(reviewed, {"pull_request": {"base": "next"}}).base_branch is None


@pytest.mark.parametrize(
    ("event", "base"),
    [
        ({"merge_group": {"base_ref": "refs/heads/release/2"}}, "release/2"),
        ({"merge_group": {"base_ref": "refs/tags/v1"}}, None),
        ({"merge_group": {"base_ref": 7}}, None),
        ({"merge_group": []}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_base_of_the_merge_queue_on_github_is_that_of_its_pull_requests(
    event: object, base: str | None
) -> None:
    queued = "gh-readonly-queue/release/2/pr-17-c0ffee"
    facts = find(
        GITHUB
        | {
            "GITHUB_EVENT_NAME": "merge_group",
            "GITHUB_BASE_REF": "",
            "GITHUB_REF": f"refs/heads/{queued}",
        },
        event,
    )
    assert (facts.branch, facts.base_branch, facts.commit) == (queued, base, "c0ffee")


def test_a_pull_request_on_github_is_its_head_and_not_the_merge() -> None:
    facts = find(GITHUB_PULL, pull_event(ref="mend"))
    assert (facts.branch, facts.commit, facts.pull_number) == ("mend", "0ddba11", 17)
    assert facts.pull == PullRequest(900, 17, "Mend the hinge", 4, "mona")
    target = GITHUB_PULL | {
        "GITHUB_EVENT_NAME": "pull_request_target",
        "GITHUB_REF": "refs/heads/main",
    }
    assert find(target, pull_event(ref="mend")) == facts


def test_a_merged_pull_request_on_github_is_the_branch_it_was_merged_into() -> None:
    merged = GITHUB_PULL | {"GITHUB_REF": "refs/heads/main"}
    facts = find(merged, pull_event(ref="mend") | {"action": "closed"})
    assert (facts.branch, facts.commit, facts.base_branch) == ("main", "c0ffee", "main")
    assert (facts.pull_number, facts.pull is not None) == (17, True)
    facts = find(merged, None)
    assert (facts.branch, facts.commit, facts.pull_number) == ("main", "c0ffee", None)


@pytest.mark.parametrize(
    "event", [pull_event(fork="mona/widgets"), pull_event(fork=None)], ids=["fork", "deleted"]
)
def test_the_main_branch_of_a_fork_is_not_ours(event: object) -> None:
    facts = find(GITHUB_PULL, event)
    assert (facts.repository, facts.branch, facts.commit) == (WIDGETS, "mona:main", "0ddba11")
    assert facts.pull_number == 17


@pytest.mark.parametrize("event", [None, {}, {"pull_request": {"number": 17}}, []])
def test_a_pull_request_without_its_event_is_no_branch_of_ours(event: object) -> None:
    facts = find(GITHUB_PULL, event)
    assert (facts.branch, facts.pull_number, facts.pull) == ("pull/17/merge", 17, None)
    assert len(facts.notes) == 1
    of_head = find(GITHUB_PULL | {"GITHUB_REF": "refs/pull/17/head"}, event)
    assert (of_head.branch, of_head.pull_number) == ("pull/17/head", 17)
    target = find(GITHUB_PULL | {"GITHUB_REF": "refs/heads/main", "GITHUB_EVENT_NAME": "x"}, event)
    assert (target.branch, target.pull_number) == (None, None)


def test_a_malformed_event_of_github_is_noted() -> None:
    for environment in (GITHUB, GITHUB_PULL):
        facts = find_job(environment, "{")
        assert facts is not None
        assert "not valid JSON" in facts.notes[0]


def test_a_deleted_fork_without_an_owner_is_no_branch_of_ours() -> None:
    event = pull_event(fork=None)
    del event["pull_request"]["head"]["user"]
    assert find(GITHUB_PULL, event).branch == "fork:main"
    del event["pull_request"]["head"]["sha"]
    assert find(GITHUB_PULL, event).branch == "pull/17/merge"


def test_a_workflow_that_follows_another_knows_only_its_repository() -> None:
    facts = find(GITHUB | {"GITHUB_EVENT_NAME": "workflow_run"}, {"workflow_run": {"id": 1}})
    assert facts.repository == WIDGETS
    assert (facts.branch, facts.commit, facts.pipeline, facts.run_id) == (None, None, None, None)
    assert "workflow_run" in facts.notes[0]


def test_a_comment_on_a_pull_request_is_no_result_of_the_default_branch() -> None:
    environment = GITHUB | {"GITHUB_EVENT_NAME": "issue_comment", "GITHUB_REF": "refs/heads/main"}
    facts = find(environment, {"issue": {"number": 17, "pull_request": {"url": "x"}}})
    assert (facts.branch, facts.commit, facts.base_branch) == (None, None, None)
    assert (facts.repository, facts.run_id, facts.job) == (WIDGETS, "7001", "unit")
    assert "issue_comment" in facts.notes[0]
    of_issue = find(environment, {"issue": {"number": 18}})
    assert (of_issue.branch, of_issue.commit) == ("main", "c0ffee")
