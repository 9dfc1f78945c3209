"""Makes up `events.ndjson`: some days of the merge queue of `demo/mergewatch` in November 2026.

Nothing in it happened: this script makes up every pull request, person and check, with a
fixed seed and no clock, so that each run writes the same bytes. All 41 event types occur.

    python -m examples.make_events            # writes events.ndjson beside this file
    python -m examples.make_events -          # prints it
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.pull_request_story import PullRequest
from examples.story import Json, Story, text_of

SEED = 20261102
MONDAY = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
DAYS = 5
PULL_REQUESTS_A_DAY = 9


def pause(story: Story, at: datetime) -> None:
    story.tell(
        at,
        "queue.pause.create",
        "API",
        reason="The registry is down.",
        created_by=story.actor(),
    )
    story.tell(
        at + timedelta(minutes=12),
        "queue.pause.update",
        "API",
        reason="The registry is slow; waiting for its team.",
        updated_by=story.actor(),
    )
    story.tell(at + timedelta(minutes=40), "queue.pause.delete", "API", deleted_by=story.actor())


def freeze(story: Story, at: datetime) -> None:
    before = {
        "reason": "Release of the week",
        "start": text_of(at + timedelta(hours=1)),
        "end": None,
        "timezone": "Europe/Paris",
        "matching_conditions": ["base=main"],
        "exclude_conditions": {"or": ["label=hotfix", {"not": "author=bot"}]},
    }
    after = {**before, "end": text_of(at + timedelta(hours=3))}
    story.tell(
        at,
        "scheduled_freeze.create",
        "API",
        scheduled_freeze_attributes=before,
        created_by=story.actor(),
        created_at=text_of(at),
    )
    later = at + timedelta(minutes=30)
    story.tell(
        later,
        "scheduled_freeze.update",
        "API",
        scheduled_freeze_attributes_before=before,
        scheduled_freeze_attributes_after=after,
        updated_by=story.actor(),
        updated_at=text_of(later),
    )
    last = at + timedelta(hours=2)
    story.tell(
        last,
        "scheduled_freeze.delete",
        "API",
        scheduled_freeze_attributes=after,
        reason="The release is out.",
        deleted_by=story.actor(),
        deleted_at=text_of(last),
    )


def set_auto_quarantine(story: Story, at: datetime) -> None:
    by = {
        "type": "application",
        "id": "0b7c2f5e-41f7-4a9c-8a55-6d0b8f1e2c33",
        "name": "mergewatch",
    }
    config = "auto_quarantine_config_attributes"
    off, on = ({"ignore_broken_on_default_branch": value} for value in (False, True))
    steps: tuple[tuple[str, Callable[[datetime], Json]], ...] = (
        ("enabled", lambda t: {"enabled_by": by, "enabled_at": text_of(t), config: off}),
        (
            "modified",
            lambda t: {
                "updated_by": by,
                "updated_at": text_of(t),
                f"{config}_before": off,
                f"{config}_after": on,
            },
        ),
        ("disabled", lambda t: {"disabled_by": by, "disabled_at": text_of(t), config: on}),
    )
    for hour, (step, metadata) in enumerate(steps):
        moment = at + timedelta(hours=hour)
        story.tell(moment, f"ci_insights.auto_quarantine.{step}", "CLI", **metadata(moment))


def make_story() -> Story:
    """Make the whole log, oldest event first."""
    story = Story(random.Random(SEED))  # noqa: S311 - the events must be repeatable
    for day in range(DAYS):
        morning = MONDAY + timedelta(days=day)
        for nth in range(PULL_REQUESTS_A_DAY):
            at = morning + timedelta(minutes=55 * nth, seconds=story.dice.randint(0, 900))
            PullRequest(story, 400 + day * PULL_REQUESTS_A_DAY + nth, at).live()
        pause(story, morning + timedelta(hours=2, minutes=7 * day))
        freeze(story, morning + timedelta(hours=5))
        if day % 2 == 0:
            set_auto_quarantine(story, morning + timedelta(hours=1))
    story.events.sort(key=lambda event: str(event["received_at"]))
    for number, event in enumerate(story.events, 1):
        event["id"] = number
    return story


def main() -> None:
    text = "".join(
        json.dumps({"id": event["id"], **event}, ensure_ascii=False) + "\n"
        for event in make_story().events
    )
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(text)
    else:
        Path(__file__).with_name("events.ndjson").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
