"""The peer of the benchmarks that only calls the store: its bodies are those of the service."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from benchmarks.peers.bare import Bare
from indexing.identifiers import derive_test_id
from tests.builders import WIDGETS, after, load_names, make_event
from tests.service.front_door import LOGS, SEARCH, TESTS, FrontDoor

NAME = "tests.test_parser_0"


@pytest.fixture
async def loaded(door: FrontDoor) -> FrontDoor:
    await load_names(door.store, [f"tests.test_parser_{number}" for number in range(20)])
    await door.store.write_events(
        [make_event(number, after(seconds=number)) for number in range(20)]
    )
    return door


@pytest.mark.parametrize(
    "path",
    [
        f"{TESTS}/{derive_test_id(WIDGETS, NAME)}",
        f"{SEARCH}?test_name=*parser*&job_name_exclude=none-1",
        f"{SEARCH}?test_name=*parser*&per_page=3",
        f"{LOGS}?received_from=2026-01-01T00:00:00Z&received_to=2027-01-01T00:00:00Z&per_page=5",
    ],
)
async def test_the_bound_answers_as_the_service_does(loaded: FrontDoor, path: str) -> None:
    async with aiohttp.ClientSession() as session:
        app = Bare(loaded.reader, session, None).make_app()
        async with TestClient(TestServer(app)) as client:
            bare = await client.get(path)
            assert (bare.status, await bare.read()) == (200, (await loaded.get(path)).body)


async def test_the_bound_passes_other_requests_on_unchanged(embedded: FrontDoor) -> None:
    async with aiohttp.ClientSession() as session:
        app = Bare(embedded.reader, session, embedded.base).make_app()
        async with TestClient(TestServer(app)) as client:
            passed = await client.get("/health/live?a=%7B%22b%22%3A1%7D")
            assert (passed.status, await passed.read()) == (
                200,
                (await embedded.get("/health/live")).body,
            )
