"""Twelve quarantines, for the tests of the operations that list them."""

from __future__ import annotations

from indexing.models.quarantines import Quarantine, QuarantineRequest, QuarantineSource
from tests.builders import WIDGETS, after
from tests.service.front_door import FrontDoor

COUNT = 12


async def add_twelve(door: FrontDoor) -> list[Quarantine]:
    """Add them a minute apart: for every branch, for one branch, or for a pattern."""
    branches = (None, "main", "release/*")
    made = [
        await door.store.add_quarantine(
            WIDGETS,
            QuarantineRequest(
                test_name=f"hinge.{number}",
                reason=f"reason {number}",
                branch=branches[number % 3],
                expires_at=after(days=1) if number == 0 else None,
                source=QuarantineSource.AUTO if number % 2 else QuarantineSource.MANUAL,
            ),
            after(minutes=number),
        )
        for number in range(COUNT)
    ]
    door.clock.now = after(hours=1)
    return [added.quarantine for added in made]
