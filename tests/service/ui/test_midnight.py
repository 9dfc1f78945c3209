"""Pages that are read while a UTC day ends."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.builders import after
from tests.service.front_door import Clock, FrontDoor
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.signed_in import sign_in

_MIDNIGHT = after(hours=12)


@pytest.mark.parametrize("path", ["/ui/", "/ui/acme/widgets", page_of(FLAKY)])
async def test_a_page_that_is_read_around_midnight_shows_the_days_of_its_beginning(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    await load_shown(door.store)
    door.clock.now = _MIDNIGHT - timedelta(minutes=1)
    client = await sign_in(door)
    looks = 0

    def look(clock: Clock) -> datetime:
        nonlocal looks
        looks += 1
        return _MIDNIGHT if looks > before_midnight else clock.now

    monkeypatch.setattr(Clock, "__call__", look)
    before_midnight = 0
    while looks >= before_midnight:
        looks, before_midnight = 0, before_midnight + 1
        assert (await client.get(path)).status == 200, before_midnight
