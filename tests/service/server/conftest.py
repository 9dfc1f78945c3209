"""A connection that counts its direct reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp.http import RawRequestMessage
from aiohttp.web import BaseRequest

from service.middleware.unparsed_requests import DIRECT_READS, Target
from tests.builders import load_names
from tests.service.front_door import FrontDoor
from tests.service.wire import Wire


@pytest.fixture
async def wire(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wire]:
    """A connection that counts direct reads as unparsed."""
    await load_names(door.store, ["hinge", "latch"])
    opened = await Wire.open(door)
    known = door.app[DIRECT_READS]
    open_target = known.open

    def count(
        target: Target, make: Callable[[RawRequestMessage], BaseRequest]
    ) -> BaseRequest | None:
        request = open_target(target, make)
        opened.unparsed += request is not None
        return request

    monkeypatch.setattr(known, "open", count)
    yield opened
    await opened.close()
