"""A receiver of webhooks on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from standardwebhooks.webhooks import Webhook as Verifier

SECRET = b"a secret of 24 bytes or more"


@dataclass
class Receiver:
    """Notes what arrives, and answers with `answer`."""

    url: str = ""
    answer: Callable[[], web.StreamResponse] = web.Response
    on_message: Callable[[], None] = lambda: None
    # The ids and bodies of accepted messages.
    taken: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    requests: list[web.BaseRequest] = field(default_factory=list)

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        body = await request.read()
        answer = self.answer()
        if 200 <= answer.status < 300:
            message_id = request.headers.get("webhook-id", "")
            self.taken.append((message_id, orjson.loads(body)))
            self.on_message()
        return answer


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    runner = web.ServerRunner(web.Server(receiver.take))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hooks"
        yield receiver
    finally:
        await runner.cleanup()


def verify(request: web.BaseRequest, body: bytes) -> None:
    """Raise unless the message is signed, as a receiver would."""
    Verifier(SECRET).verify(body, dict(request.headers))
