"""The events of one made-up pull request, for `make_events.py`.

Nothing here happened; checks and addresses are invented.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from examples.story import PEOPLE, Json, Story, text_of

QUEUE = "default"
PARTITIONS = ("api", "worker")
CHECKS = ("ci/unit", "ci/integration", "ci/lint", "ci/docs")
RULES = ("hotfix", None, None, None)


class PullRequest:
    """One pull request, from being opened to being merged or leaving the queue."""

    def __init__(self, story: Story, number: int, at: datetime) -> None:
        self.story = story
        self.number = number
        self.at = at
        self.partition = story.dice.choice(PARTITIONS)
        self.rule = story.dice.choice(RULES)
        self.session = story.uuid()
        self.car = story.uuid()
        self.queued_at = at

    def tell(self, event_type: str, trigger: str, **metadata: Any) -> None:
        self.story.tell(self.at, event_type, trigger, self.number, **metadata)

    def wait(self, least: int, most: int) -> None:
        self.at += timedelta(seconds=self.story.dice.randint(least, most))

    def live(self) -> None:
        self.prepare()
        self.enter()
        self.check()
        fate = self.story.dice.random()
        if fate < 0.2:
            self.fail()
        elif fate < 0.3:
            self.withdraw()
        else:
            self.merge()

    def prepare(self) -> None:
        """Add the events of the rules that apply before a pull request can be queued."""
        author = self.story.dice.choice(PEOPLE)[0]
        reviewer = self.story.dice.choice([name for name, _ in PEOPLE if name != author])
        steps: list[tuple[float, str, str, Json]] = [
            (
                0.5,
                "action.label",
                "Rule: label by path",
                {"added": [self.partition], "removed": []},
            ),
            (0.4, "action.assign", "Rule: assign author", {"added": [author], "removed": []}),
            (
                0.5,
                "action.request_reviews",
                "Rule: ask for reviews",
                {"reviewers": [reviewer], "team_reviewers": ["maintainers"]},
            ),
            (0.2, "action.edit", "Rule: draft while red", {"draft": self.story.chance(0.5)}),
            (0.2, "action.rebase", "Command: rebase", {}),
            (0.2, "action.update", "Rule: keep up to date", {}),
            (0.15, "action.squash", "Command: squash", {}),
            (0.15, "action.refresh", "Command: refresh", {}),
            (0.15, "action.dismiss_reviews", "Rule: new commits", {"users": [reviewer]}),
            (
                0.2,
                "action.review",
                "Rule: approve dependency updates",
                {"review_type": "APPROVE", "reviewer": None, "message": "Looks good 👍"},
            ),
            (
                0.3,
                "action.post_check",
                "Rule: title style",
                {
                    "conclusion": "success",
                    "title": "Title follows the style",
                    "summary": f"The title of #{self.number} is “short & plain”.",
                },
            ),
            (
                0.15,
                "action.host_actions",
                "Rule: preview",
                {"workflow": "preview.yml", "inputs": {"pull_request": str(self.number)}},
            ),
        ]
        for share, event_type, trigger, metadata in steps:
            if self.story.chance(share):
                self.wait(5, 600)
                self.tell(event_type, trigger, **metadata)

    def enter(self) -> None:
        self.wait(60, 1800)
        if self.story.chance(0.4):
            self.tell(
                "command.queue",
                "Command: queue",
                author=self.story.account(),
                comment_id=self.story.dice.randint(10**8, 10**9),
                session_id=self.session,
            )
        self.wait(1, 3)
        self.queued_at = self.at
        self.tell("action.queue.enter", "merge queue", **self.place(), session_id=self.session)
        self.change_queue()
        if self.story.chance(0.12):
            self.wait(1, 30)
            self.tell(
                "action.queue.checks_not_started",
                "merge queue",
                **self.place(),
                reason="The queue has no free slot.",
                session_id=self.session,
            )

    def place(self) -> Json:
        """Return the position in the queue, as in the metadata of most queue events."""
        return {
            "queue_name": QUEUE,
            "branch": "main",
            "queued_at": text_of(self.queued_at),
            "partition_name": self.partition,
            "priority_rule_name": self.rule,
        }

    def change_queue(self) -> None:
        if self.story.chance(0.3):
            place = {"queue_name": QUEUE, "partition_name": self.partition}
            self.tell(
                "action.queue.change",
                "merge queue",
                **place,
                priority_rule_name=self.rule,
                size=self.story.dice.randint(1, 6),
            )
            self.tell(
                "action.queue.checks.change",
                "merge queue",
                **place,
                running_checks=self.story.dice.randint(1, 12),
            )

    def speculative(self, conclusion: str, failed: list[Json]) -> Json:
        over = conclusion != "pending"
        return {
            "number": self.number + 9000,
            "in_place": False,
            "checks_timed_out": False,
            "checks_conclusion": conclusion,
            "checks_started_at": text_of(self.at - timedelta(minutes=8) if over else self.at),
            "checks_ended_at": text_of(self.at) if over else None,
            "unsuccessful_checks": failed,
            "pull_request_numbers": [self.number],
            "train_car_id": self.car,
        }

    def check(self) -> None:
        self.wait(5, 60)
        self.tell(
            "action.queue.checks_start",
            "merge queue",
            **self.place(),
            start_reason="It is at the head of the queue.",
            speculative_check_pull_request=self.speculative("pending", []),
            session_id=self.session,
        )
        self.wait(300, 1500)

    def end_checks(self, conclusion: str, code: str | None, reason: str | None) -> list[Json]:
        failed = []
        if conclusion == "failure":
            failed = [self.story.check(self.story.dice.choice(CHECKS), "failure")]
        self.tell(
            "action.queue.checks_end",
            "merge queue",
            aborted=code is not None,
            abort_code=code,
            abort_reason=reason,
            abort_status="DEFINITIVE",
            **self.place(),
            retry_attempt=1 if failed else None,
            max_retries=2 if failed else None,
            speculative_check_pull_request=self.speculative(conclusion, failed),
            session_id=self.session,
        )
        self.wait(1, 4)
        return failed

    def leave(self, reason: str, checks: list[Json], *, merged: bool) -> None:
        evaluation = {
            "match": merged,
            "label": "all of",
            "is_label_user_input": False,
            "description": None,
            "attribute_name": None,
            "operator": None,
            "schedule": None,
            "subconditions": [
                {
                    "match": merged,
                    "label": f"check-success={name}",
                    "is_label_user_input": True,
                    "description": None,
                    "attribute_name": "check-success",
                    "operator": "=",
                    "schedule": None,
                    "subconditions": [],
                    "evaluations": [
                        {
                            "pull_request": self.number,
                            "match": merged,
                            "evaluation_error": None,
                            "related_checks": [name],
                            "next_evaluation_at": None,
                        }
                    ],
                }
                for name in CHECKS[:2]
            ],
            "evaluations": [],
        }
        self.tell(
            "action.queue.leave",
            "merge queue",
            reason=reason,
            merged=merged,
            **self.place(),
            seconds_waiting_for_schedule=0,
            seconds_waiting_for_freeze=self.story.dice.choice((0, 0, 0, 1800)),
            conditions_evaluation=evaluation if self.story.chance(0.5) else None,
            checks=checks,
            session_id=self.session,
        )
        self.wait(1, 4)

    def merge(self) -> None:
        self.end_checks("success", None, None)
        place = self.place()
        del place["partition_name"]
        self.tell(
            "action.queue.merged",
            "merge queue",
            **place,
            partition_names=[self.partition],
            session_id=self.session,
        )
        self.wait(1, 4)
        self.tell("action.merge", "merge queue", branch="main")
        passed = [self.story.check(name, "success") for name in CHECKS[:2]]
        self.leave("The pull request was merged.", passed, merged=True)
        if self.story.chance(0.6):
            branch = f"{self.partition}/topic-{self.number}"
            self.tell("action.delete_head_branch", "Rule: clean up", branch=branch)
        for event_type, share in (("action.backport", 0.2), ("action.copy", 0.15)):
            if self.story.chance(share):
                self.wait(2, 20)
                self.tell(
                    event_type,
                    "Command: " + event_type.removeprefix("action."),
                    to="release-1.4",
                    pull_request_number=self.number + 5000,
                    conflicts=self.story.chance(0.2),
                )

    def fail(self) -> None:
        failed = self.end_checks("failure", "CHECKS_FAILED", "A required check failed.")
        batch = [self.number, self.number + 1, self.number + 2]
        place = {
            "queue_name": QUEUE,
            "partition_name": self.partition,
            "priority_rule_name": self.rule,
            "original_batch_pr_numbers": batch,
        }
        end = {"session_id": self.session, "train_car_id": self.car}
        self.tell(
            "action.queue.batch_bisection_start",
            "merge queue",
            **place,
            batch_size_before_split=3,
            number_of_sub_batches=2,
            bisection_depth=1,
            is_top_level=True,
            **end,
        )
        self.wait(300, 900)
        self.tell(
            "action.queue.batch_bisection_end",
            "merge queue",
            **place,
            culprit_found=True,
            culprit_pr_numbers=[self.number],
            remaining_pr_numbers=batch[1:],
            max_failure_resolution_reached=False,
            **end,
        )
        self.leave("The checks failed.", failed, merged=False)
        self.tell(
            "action.comment",
            "Rule: explain failures",
            message=f"`{failed[0]['name']}` failed — see {failed[0]['url']} 🔍",
        )
        self.retry_job()
        if self.story.chance(0.5):
            self.wait(3600, 7200)
            self.tell("action.close", "Rule: close what is stale", message="Closed as stale.")

    def retry_job(self) -> None:
        line = {"source": "job_log", "matched_line_number": self.story.dice.randint(10, 4000)}
        note = {
            "source": "annotation",
            "annotation_title": "Connection reset",
            "annotation_path": "tests/test_upload.py",
        }
        match = {"attribute": "log", "matched_value": "connection reset by peer"}
        job = {"attribute": "job_name", "matched_value": "integration"}
        self.wait(5, 60)
        self.tell(
            "ci_insights.job_retried",
            "CI insights",
            rule_id="5d0f6a53-6f0e-4f0c-9a5e-2a4f3b1c7d10",
            rule_name="Retry on lost connections",
            max_retry=2,
            retry_mode=self.story.dice.choice(("job", "pipeline")),
            retry_attempt=1,
            condition_matches=[job, {**match, **self.story.dice.choice((line, note))}],
            outcome="retried" if self.story.chance(0.8) else "skipped_quota_exceeded",
        )

    def withdraw(self) -> None:
        self.tell(
            "command.dequeue",
            "Command: dequeue",
            author=self.story.account(),
            comment_id=self.story.dice.randint(10**8, 10**9),
            session_id=self.session,
        )
        self.wait(1, 3)
        self.end_checks("cancelled", "PR_MANUALLY_DEQUEUED", "It was taken out by a command.")
        self.tell("action.dequeue", "Command: dequeue")
        self.leave("It was taken out by a command.", [], merged=False)
