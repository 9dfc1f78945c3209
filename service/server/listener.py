"""A listening socket, and how it stops: it refuses new connections and serves the existing ones."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from service.context import LIFECYCLE
from service.http.raw_response import BatchedWrites
from service.http.unparsed import DirectReads, RepeatedRequests
from service.server.draining import accept_all, refuse_new_connections
from service.server.gradual_parsing import ParsingTurns
from service.server.protocol import Connection
from service.server.unsent_bodies import UnsentBodies

# How many connections may wait to be accepted: a burst of CI jobs that start together.
BACKLOG: Final = 1024
# How many are accepted in one iteration of the event loop. libuv takes one at a time from a socket,
# too few for a busy process; so it is given the same socket several times.
ACCEPTED_AT_ONCE: Final = 16

# How often a draining listener checks whether connections are left.
DRAIN_POLL_SECONDS: Final = 0.02

# How long clients that have begun to connect have to finish.
ARRIVING_SECONDS: Final = 0.2


class Listener(web.BaseSite):
    """A bound socket that makes a `Connection` of each connection, with `options` of aiohttp."""

    __slots__ = (
        "_batched_writes",
        "_direct",
        "_draining_socket",
        "_lifecycle",
        "_options",
        "_others",
        "_repeated",
        "_socket",
        "_turns",
        "_unsent_bodies",
    )

    def __init__(
        self,
        runner: web.AppRunner,
        sock: socket.socket,
        options: Mapping[str, Any],
        repeated: RepeatedRequests | None = None,
        direct: DirectReads[Any] | None = None,
    ) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._lifecycle = runner.app[LIFECYCLE]
        self._socket = sock
        # For draining. It is made now, because a process under load may have no descriptor left.
        self._draining_socket = sock.dup()
        self._options = dict(options)
        self._repeated = repeated
        self._direct = direct
        self._batched_writes = BatchedWrites()
        self._unsent_bodies = UnsentBodies()
        self._turns = ParsingTurns()
        self._others: list[asyncio.Server] = []

    @property
    def name(self) -> str:
        return http_url(self._socket)

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()

        async def listen(sock: socket.socket) -> asyncio.Server:
            return await loop.create_server(self._connection, sock=sock, backlog=BACKLOG)

        self._server = await listen(self._socket)
        for _ in range(ACCEPTED_AT_ONCE - 1):
            self._others.append(await listen(self._socket.dup()))

    async def drain(self, seconds: float, is_last: Callable[[], bool]) -> None:
        """Refuse new connections, and wait at most `seconds` until all others are closed.

        `is_last` returns whether no other process still accepts connections on the same socket.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._lifecycle.stopping = True
        with self._draining_socket as sock:
            for server in (self._server, *self._others):
                if server is not None:
                    server.close()
            # Connections that the kernel has made are served: closing the socket would reset them.
            arrived_by = loop.time() + ARRIVING_SECONDS
            while loop.time() < arrived_by:
                # The loop closes its own sockets first. Refusing connections may need a descriptor.
                await asyncio.sleep(DRAIN_POLL_SECONDS)
                if is_last():
                    refuse_new_connections(sock)
                for accepted in accept_all(sock):
                    await loop.connect_accepted_socket(self._connection, accepted)
        while loop.time() < deadline:
            answering = self._runner.server
            if answering is None or not answering.connections:
                break
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    async def stop(self) -> None:
        self._draining_socket.close()
        for other in self._others:
            other.close()
        await super().stop()

    def _connection(self) -> Connection:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner was not set up")
        loop = asyncio.get_running_loop()
        return Connection(
            server,
            self._lifecycle,
            self._batched_writes,
            self._unsent_bodies,
            self._repeated,
            self._direct,
            loop=loop,
            turns=self._turns,
            **self._options,
        )


def http_url(sock: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
