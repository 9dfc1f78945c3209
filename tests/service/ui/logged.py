"""The event log that the dashboard shows in its tests: two pull requests, and hostile events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from indexing.models.events import Outcome, StoredEvent
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, make_event
from tests.service.ui.shown import HOSTILE

QUEUED: Final = 444
REASON: Final = "The pull request was merged."
LOG: Final = "/ui/acme/widgets/events"


def make_log() -> list[StoredEvent]:
    """Make six days of events, every two hours; the newest is of pull request 444."""
    events = []
    for number in range(72):
        at = NOON - timedelta(hours=2 * number + 1)
        about: dict[str, Any] = {"event_type": "action.rebase", "outcome": Outcome.SUCCESS}
        if number % 3 == 1:
            about = {
                "event_type": "action.queue.leave",
                "outcome": Outcome.FAILURE,
                "metadata": {
                    "reason": REASON,
                    "merged": False,
                    "queue_name": "default",
                    "checks": [{"name": "ci/unit", "url": "https://ci.example/1", "state": "ok"}],
                    "session_id": None,
                },
            }
        pull = QUEUED if number % 9 == 0 else 400 + number % 7
        trigger = "merge queue" if number % 2 else "Rule: clean up"
        events.append(
            make_event(
                1_000 - number, at, pull_request=pull, base_ref="main", trigger=trigger, **about
            )
        )
    return events


async def load_log(store: Store) -> None:
    """Write the events of `make_log`."""
    await store.ensure_repository(WIDGETS)
    await store.write_events(make_log())


def nest(depth: int, value: Any) -> Any:
    """Nest the value in this many objects and lists, in turn."""
    for level in range(depth):
        value = [value] if level % 2 else {"level": value}
    return value


async def load_hostile_log(store: Store) -> None:
    """Write hostile events: 64 KiB of text or of members, 50 levels, markup everywhere."""
    await store.ensure_repository(WIDGETS)
    events = []
    for number in range(60):
        text = HOSTILE[number % len(HOSTILE)]
        metadata = [
            {text[:900]: text, "url": f"javascript:alert(9)//{text}", "reason": text},
            {"inputs": nest(50, text)},
            {"inputs": {f"{text[:20]}{each}": "\u202e" * 9 for each in range(1_000)}},
            {"message": "".join(chr(33 + (each * each) % 94) for each in range(65_000))},
        ][number % 4]
        events.append(
            make_event(
                number + 1,
                NOON - timedelta(minutes=number),
                event_type="action.comment",
                pull_request=number,
                base_ref=text[:200],
                trigger=text[:250] if number % 2 else text * 3,
                metadata=metadata,
            )
        )
    await store.write_events(events)
