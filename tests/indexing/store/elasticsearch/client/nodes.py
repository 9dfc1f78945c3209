"""Stand-ins for nodes, which give responses that no healthy node gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer
from yarl import URL

from indexing.store.elasticsearch.client.connection import Connection

PASSWORD: Final = "hunter2"
EMPTY: Final = b'{"timed_out": false, "_shards": {"failed": 0}, "hits": {"hits": []}}'

Handler = Callable[[web.Request], Awaitable[web.Response]]


def json_response(body: bytes, status: int = 200, **headers: str) -> web.Response:
    return web.Response(
        status=status, body=body, content_type="application/json", headers=headers or None
    )


def failure_response(status: int, kind: str) -> web.Response:
    return json_response(b'{"error": {"type": "%s", "reason": "why"}}' % kind.encode(), status)


class Nodes:
    """Stand-ins that answer every request as a test tells them to, and what they were sent."""

    def __init__(self, start: AiohttpServer) -> None:
        self._start = start
        self.handler: Handler | None = None
        self.asked: list[tuple[URL, web.Request]] = []

    def say(self, *responses: Callable[[], web.Response]) -> None:
        """Give these responses in turn, and the last one for good."""
        waiting = list(responses)

        async def answer(_: web.Request) -> web.Response:
            return (waiting.pop(0) if len(waiting) > 1 else waiting[0])()

        self.handler = answer

    @asynccontextmanager
    async def connect(
        self, *users: str | None, api_key: str | None = None
    ) -> AsyncIterator[Connection]:
        """Connect to one node for each user, whose password is in the URL."""
        urls = []
        for user in users or (None,):
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", self._answer)
            address = (await self._start(application)).make_url("/")
            urls.append(address.with_user(user).with_password(user and PASSWORD))
        connection = Connection([str(url) for url in urls], api_key)
        try:
            yield connection
        finally:
            await connection.close()

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.url, request))
        assert self.handler is not None
        return await self.handler(request)
