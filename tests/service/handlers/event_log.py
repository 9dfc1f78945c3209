"""Fills the event log, and reads a page of it."""

from __future__ import annotations

from tests.builders import after, make_event
from tests.service.front_door import LOGS, FrontDoor


async def read_ids(door: FrontDoor, query: str = "") -> list[int]:
    answer = await door.get(f"{LOGS}?{query}")
    assert answer.status == 200, answer.body
    return [event["id"] for event in answer.json["events"]]


async def fill_log(door: FrontDoor) -> None:
    """Twenty-five events, two at the same time every minute, up to just before now."""
    await door.store.write_events(
        [
            make_event(
                number,
                after(minutes=number // 2),
                pull_request=number % 5,
                base_ref="main" if number % 2 else None,
                event_type="action.merge" if number % 3 else "action.rebase",
                metadata={"branch": "main"} if number % 3 else {},
            )
            for number in range(25)
        ]
    )
