"""The service itself, killed in the middle of a page walk and restarted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.clients import clients_of
from tests.faults.conftest import Stocked
from tests.faults.serving import start
from tests.faults.stock import EVENTS, NAMES, QUARANTINED, TARGETS, fill
from tests.places import Place
from tests.service.front_door import LOGS, QUARANTINES, SEARCH

WALKS = {
    f"{LOGS}?received_from=2026-07-01T00:00:00Z&per_page=4": ("events", EVENTS),
    f"{SEARCH}?test_name=*&per_page=3": ("tests", len(NAMES)),
    f"{QUARANTINES}?per_page=2": ("quarantined_tests", len(QUARANTINED)),
}


@pytest.fixture(params=["sqlite", "elasticsearch"])
def place_and_key(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Place, str]:
    if request.param == "sqlite":
        return tmp_path, asyncio.run(fill(tmp_path))
    stocked: Stocked = request.getfixturevalue("stocked")
    return stocked.place, stocked.key


@pytest.mark.parametrize("first", WALKS)
async def test_a_walk_goes_on_over_restarts_and_meets_every_row_once(
    place_and_key: tuple[Place, str], first: str
) -> None:
    place, key = place_and_key
    member, count = WALKS[first]
    running = start(place)
    rows: list[Any] = []
    following: str | None = first
    pages = 0
    try:
        while following is not None:
            async with clients_of(running.base, key) as clients:
                told = await clients.ask(following)
            assert told.status == 200, told.body
            rows += orjson.loads(told.body)[member]
            following = told.following and told.following.removeprefix(running.base)
            pages += 1
            if pages in (2, 3):
                running.end()
                running = start(place)
    finally:
        running.end()
    assert len(rows) == count
    assert len({orjson.dumps(row) for row in rows}) == count


async def test_clients_of_a_killed_service_go_on_with_the_next_one(stocked: Stocked) -> None:
    first = start(stocked.place)
    async with clients_of(first.base, stocked.key) as clients:
        await clients.learn(TARGETS)
        right = clients.right
    first.end()
    second = start(stocked.place)
    try:
        async with clients_of(second.base, stocked.key) as clients:
            for target, body in right.items():
                told = await clients.ask(target)
                assert (told.status, told.body) == (200, body), target
    finally:
        second.end()
