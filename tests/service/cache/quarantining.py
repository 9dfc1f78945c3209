"""Adds and lists the quarantines of the usual repository."""

from __future__ import annotations

from typing import Any

from indexing.models.quarantines import QuarantineRequest
from tests.builders import NOON, WIDGETS
from tests.service.front_door import QUARANTINES, FrontDoor


async def add(door: FrontDoor, name: str = "hinge", **rest: Any) -> str:
    request = QuarantineRequest(name, "flaps", **rest)
    made, _ = await door.store.add_quarantine(WIDGETS, request, NOON)
    return str(made.key.id)


async def listed(door: FrontDoor, query: str = "") -> list[str]:
    answer = await door.get(f"{QUARANTINES}?{query}")
    return [row["id"] for row in answer.json["quarantined_tests"]]
