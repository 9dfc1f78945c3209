"""The floor: the best that aiohttp and uvloop can do, a constant of each given size.

The response to `/1024` is 1,024 bytes of JSON, like the responses that it is compared with.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

import uvloop
from aiohttp import web

from service.server.process import bind
from service.server.supervisor import supervise

_FILLER: Final = b"0123456789abcdef"


def make_app(sizes: list[int]) -> web.Application:
    """Build an application with one route for each size, and one that shows it is ready."""
    app = web.Application()
    for size in sizes:
        app.router.add_get(f"/{size}", _constant(_body_of(size)))
    app.router.add_get("/ready", _constant(b""))
    return app


def _body_of(size: int) -> bytes:
    """Return a JSON string of that many bytes."""
    return b'"' + (_FILLER * (size // len(_FILLER) + 1))[: max(size - 2, 0)] + b'"'


def _constant(body: bytes) -> Any:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    return answer


async def serve(app: web.Application, listener: Any) -> None:
    """Serve the application on a listening socket, without an access log."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("sizes", type=int, nargs="*")
    options = parser.parse_args()

    def run(_lifeline: int = 0, _number: int = 0) -> None:
        uvloop.run(serve(make_app(options.sizes), listener))

    with bind("127.0.0.1", options.port) as listener:
        if options.workers == 1:
            run()
        else:
            supervise(options.workers, run)


if __name__ == "__main__":
    main()
