"""A stand-in for the source-hosting platform: the one API request in use, with its statuses.

`python -m tests.source_host` serves one for manual trials: see docs/authentication.md.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from service.server.listener import http_url
from service.server.process import bind


@dataclass(frozen=True)
class Saying:
    """The fixed response of the host to every request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"message": "as it was told to"}'


@dataclass
class SourceHost:
    """Repositories by full name with their ids, and the repositories that each token may read."""

    repositories: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, int] = field(default_factory=dict)
    readable: dict[str, set[int]] = field(default_factory=dict)
    saying: Saying | None = None
    is_silent: bool = False
    # Set while responses are allowed; a test holds responses back by clearing it.
    open: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[str, str]] = field(default_factory=list)
    base: str = ""

    def add(self, full_name: str, *tokens: str) -> int:
        """Add a repository that these tokens may read; return its id."""
        number = self.repositories.setdefault(full_name, 1_000 + len(self.repositories))
        for token in tokens:
            self.readable.setdefault(token, set()).add(number)
        return number

    def rename(self, before: str, after: str) -> None:
        """Rename a repository; the old name redirects to its id."""
        number = self.repositories.pop(before)
        self.renamed[before] = number
        self.repositories[after] = number

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Handle any request."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked.append((request.path, token))
        self.arrived.set()
        if self.is_silent:
            await asyncio.Event().wait()
        await self.open.wait()
        if self.saying is not None:
            return web.Response(
                status=self.saying.status, headers=self.saying.headers, body=self.saying.body
            )
        if token not in self.readable:
            return web.json_response({"message": "Bad credentials"}, status=401)
        return self._find(request.path, token)

    def _find(self, path: str, token: str) -> web.Response:
        kind, _, rest = path.removeprefix("/").partition("/")
        names = {name.lower(): name for name in (*self.repositories, *self.renamed)}
        if kind == "repositories" and rest.isdigit():
            number: int | None = int(rest)
        else:
            name = names.get(rest.lower(), "")
            moved = self.renamed.get(name)
            if moved in self.readable[token]:
                target = f"{self.base}/repositories/{moved}"
                message = {"message": "Moved Permanently", "url": target}
                return web.json_response(message, status=301, headers={"Location": target})
            number = self.repositories.get(name)
        if number is None or number not in self.readable[token]:
            return web.json_response({"message": "Not Found"}, status=404)
        full_name = next(name for name, its in self.repositories.items() if its == number)
        return web.json_response(
            {"id": number, "full_name": full_name, "private": True, "permissions": {"pull": True}}
        )


@asynccontextmanager
async def open_host(port: int = 0) -> AsyncIterator[SourceHost]:
    """A host that listens on this machine until the context ends."""
    host = SourceHost()
    host.open.set()
    app = web.Application()
    app.router.add_get("/{path:.*}", host.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    with bind("127.0.0.1", port) as listener:
        await web.SockSite(runner, listener).start()
        host.base = http_url(listener)
        yield host
        await runner.cleanup()


async def _serve(port: int, grants: list[str]) -> None:
    async with open_host(port) as host:
        for grant in grants:
            token, _, full_name = grant.partition("=")
            host.add(full_name, token)
        print(host.base, flush=True)  # noqa: T201 - what is to be set as MERGEWATCH_HOST_API_URL
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A stand-in for the source-hosting platform.")
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("grants", nargs="*", metavar="TOKEN=OWNER/REPOSITORY")
    given = parser.parse_args()
    asyncio.run(_serve(given.port, given.grants))
