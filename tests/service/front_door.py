"""The HTTP client of the tests: it sends requests as any client would."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from indexing.models.keys import Scope
from indexing.store.interface import Reader, Store
from service.auth.api_keys import make_key
from service.config.settings import Settings
from service.context import CONTEXT
from service.http.problems import TITLES
from tests.builders import NOON
from tests.forked import run_forked

ROOT = Path(__file__).parents[2]

LOGS = "/v1/repos/acme/widgets/logs"
SEARCH = "/v1/ci/acme/repositories/widgets/search/tests"
QUARANTINES = "/v1/ci/acme/repositories/widgets/quarantines"
TEST_STATES = "/v1/ci/acme/repositories/widgets/test-states"
TESTS = "/v1/ci/acme/repositories/widgets/tests"
A_TEST_ID = "3f0c9a4e-8d1b-5f6a-9c2d-0123456789ab"


def operations(owner: str = "acme", repository: str = "widgets") -> dict[str, str]:
    """Return a valid path and query of each read operation."""
    ci = f"/v1/ci/{owner}/repositories/{repository}"
    return {
        "events": f"/v1/repos/{owner}/{repository}/logs",
        "search": f"{ci}/search/tests?test_name=*",
        "test": f"{ci}/tests/{A_TEST_ID}",
        "quarantines": f"{ci}/quarantines",
        "quarantine": f"{ci}/quarantines/{A_TEST_ID}",
        "test-states": f"{ci}/test-states",
        "executions": f"{ci}/tests/{A_TEST_ID}/executions",
        "runs": f"{ci}/runs",
        "stats": f"{ci}/tests/stats/executions",
        "test-stats": f"{ci}/tests/{A_TEST_ID}/stats/mean_duration",
        "test-groups": f"{ci}/tests/groups?by=job",
        "health-transitions": f"{ci}/health-transitions",
        "test-health-transitions": f"{ci}/tests/{A_TEST_ID}/health-transitions",
        "test-health": f"{ci}/tests/{A_TEST_ID}/health",
        "failures": f"{ci}/tests/{A_TEST_ID}/failures",
        "failure": f"{ci}/tests/{A_TEST_ID}/failures/{A_TEST_ID}",
    }


@dataclass
class Clock:
    """A clock that stands still until a test sets it."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def links(self) -> Mapping[str, str]:
        """Return the URLs of the `Link` header by relation."""
        header = ", ".join(self.headers.getall("Link", ()))
        found = re.findall(r'<([^<>]*)>; rel="([a-z]+)"', header)
        return {relation: url for url, relation in found}

    @property
    def wrong_fields(self) -> list[tuple[str, str]]:
        """Return the location and name of each invalid field of a 422."""
        assert self.status == 422, (self.status, self.body)
        return [(error["in"], error["field"]) for error in self.json["errors"]]


@dataclass
class FrontDoor:
    base: str
    client: aiohttp.ClientSession
    store: Store
    clock: Clock
    runner: web.AppRunner
    settings: Settings
    key: str = field(default="", repr=False)

    @property
    def app(self) -> web.Application:
        return self.runner.app

    @property
    def reader(self) -> Reader:
        """The plain store; writes through `store` also invalidate the cache."""
        return self.app[CONTEXT].reader

    async def command(self, *words: str) -> str:
        """Run a command in another process over the same store; return its output."""
        environment = os.environ | {
            "MERGEWATCH_DATA_DIR": str(self.settings.data_dir),
            "MERGEWATCH_ELASTICSEARCH_URL": ",".join(self.settings.elasticsearch_url),
            "MERGEWATCH_ELASTICSEARCH_PREFIX": self.settings.elasticsearch_prefix,
            "MERGEWATCH_REDIS_URL": self.settings.redis_url or "",
        }
        return await asyncio.to_thread(partial(run_forked, *words, environment=environment))

    async def new_key(
        self, scope: Scope = Scope.READ, owner: str = "acme", repository: str | None = None
    ) -> str:
        return await self.add_key(scope=scope, owner=owner, repository=repository)

    async def add_key(self, **about: Any) -> str:
        defaults = {"name": "a test", "scope": Scope.READ, "owner": "acme", "repository": None}
        text, record = make_key(
            **{"key_id": uuid.uuid4().hex, "created_at": NOON, **defaults, **about}
        )
        await self.store.add_key(record)
        return text

    async def get(
        self, target: str, *, key: str | None = None, method: str = "GET", **headers: str
    ) -> Answer:
        """Request a target exactly as written; `key` defaults to that of this service."""
        sent = {"Authorization": f"Bearer {self.key if key is None else key}", **headers}
        return await self.ask(target, sent, method)

    async def post(
        self, target: str, body: bytes, kind: str | None, *, key: str | None = None, **headers: str
    ) -> Answer:
        """Send a body of that media type; `Content_Encoding` names a header too."""
        sent = {"Authorization": f"Bearer {self.key if key is None else key}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if kind is not None:
            sent["Content-Type"] = kind
        return await self.ask(target, sent, "POST", body)

    async def ask(
        self, target: str, headers: Any, method: str = "GET", body: bytes | None = None
    ) -> Answer:
        url = URL(target if target.startswith("http") else self.base + target, encoded=True)
        async with self.client.request(method, url, headers=headers, data=body) as response:
            return Answer(response.status, response.headers, await response.read())

    async def walk(self, target: str, member: str, relation: str = "next") -> list[list[Any]]:
        """Return the rows of each page, starting at this target and going in this direction."""
        pages = []
        following: str | None = target
        while following is not None:
            answer = await self.get(following)
            assert answer.status == 200, answer.body
            pages.append(answer.json[member])
            following = answer.links.get(relation)
        return pages


def assert_problem(status: int, content_type: str, body: bytes) -> None:
    """Check the form of a problem body, and that it has this status."""
    document = orjson.loads(body)
    assert content_type == "application/problem+json"
    assert [*document][:4] == ["type", "title", "status", "detail"]
    assert (document["status"], document["title"]) == (status, TITLES[status])


@dataclass(frozen=True)
class Held:
    """Store calls that wait until they are released."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for_one_of(self, *requests: asyncio.Task[Any]) -> None:
        """Wait until a call is held; fail if one of the requests is answered first."""
        arrival = asyncio.create_task(self.arrived.wait())
        await asyncio.wait({arrival, *requests}, return_when=asyncio.FIRST_COMPLETED)
        if not arrival.done():
            arrival.cancel()
            raise AssertionError("a request was answered that should be held up")


def hold_up(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, method: str = "find_repository"
) -> Held:
    """Make all calls of that store method wait, those of the cache too."""
    held, call = Held(), getattr(door.reader, method)

    async def call_slowly(*about: Any, **rest: Any) -> Any:
        held.arrived.set()
        await held.released.wait()
        try:
            return await call(*about, **rest)
        finally:
            held.ended.set()

    monkeypatch.setattr(door.reader, method, call_slowly)
    return held
