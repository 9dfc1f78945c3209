"""Overload as clients see it: refused in the words of the interface, and never the health pages."""

from __future__ import annotations

import asyncio

import pytest

from service import turns
from service.context import CONTEXT
from tests.service.front_door import LOGS, FrontDoor, hold_up


async def test_what_has_no_room_is_a_503_that_says_when_to_come_back(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, released = hold_up(door, monkeypatch)
    monkeypatch.setattr(turns, "MAX_RUNNING", 1)
    for bound in ("MIN_QUEUE", "MAX_QUEUE"):
        monkeypatch.setattr(turns, bound, 0)
    first = asyncio.create_task(door.get(LOGS))
    await arrived.wait()

    refused = await door.get(LOGS, **{"X-Request-Id": "mine"})
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert refused.headers["X-Request-Id"] == "mine"
    assert refused.json["status"] == 503
    assert (await door.get("/health/ready")).status == 200
    assert door.app[CONTEXT].gate.turns.refused == 1
    # Another spelling of the same target has to wait as well.
    assert (await door.get(LOGS.replace("/v1/", "/%761/"))).status == 503

    released.set()
    assert (await first).status == 200
    assert (await door.get(LOGS)).status == 200
