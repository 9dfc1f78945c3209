"""A TCP proxy in front of a server. The test selects the network fault it simulates.

    async with Proxy(node.http.number) as proxy:
        await proxy.turn(Delayed(1.0))

The fault can be changed at any time, and applies to open connections too.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from tests.servers.http_answers import RequestEnd, answer_of
from tests.servers.ports import HOST, reserve

CHUNK: Final = 65536


@dataclass(frozen=True)
class Passing:
    """Forward everything."""


@dataclass(frozen=True)
class Delayed:
    """Delay the start of every response by so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Trickling:
    """Send responses one byte at a time, with so many seconds between two."""

    pause: float


@dataclass(frozen=True)
class Cut:
    """Send half of the available response, then close."""


@dataclass(frozen=True)
class Silent:
    """Accept, and never respond."""


@dataclass(frozen=True)
class Resetting:
    """Accept, and reset the connection at the client's first bytes."""


@dataclass(frozen=True)
class Down:
    """Refuse new connections, and reset open ones."""


@dataclass(frozen=True)
class Answering:
    """Respond to every HTTP request with this status; the server never sees the request."""

    status: int
    retry_after: int | None = None


Behaviour = Passing | Delayed | Trickling | Cut | Silent | Resetting | Down | Answering


class Proxy:
    """Listens on one port for the lifetime of the object."""

    def __init__(self, target: int, behaviour: Behaviour | None = None) -> None:
        """`target` is the port of a server on this machine, which may start later."""
        self.target = target
        self.behaviour: Behaviour = behaviour or Passing()
        self.port: Final = reserve()
        # The number of connections accepted since it was created.
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._open: set[Connection] = set()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port.number}"

    async def turn(self, behaviour: Behaviour) -> None:
        """Simulate this fault from now on."""
        self.behaviour = behaviour
        for connection in tuple(self._open):
            # After bytes were held back, the rest of the stream would be corrupt.
            if isinstance(behaviour, Down) or connection.swallowed:
                connection.abort()
        if isinstance(behaviour, Down):
            self._stop_listening()
        elif self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port.number)

    async def __aenter__(self) -> Self:
        await self.turn(self.behaviour)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_listening()
        served = [connection.served for connection in self._open]
        for connection in tuple(self._open):
            connection.abort()
        await asyncio.gather(*served, return_exceptions=True)
        self.port.release()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        connection = Connection(self, reader, writer)
        self._open.add(connection)
        try:
            await connection.serve()
        finally:
            self._open.discard(connection)


class Connection:
    """One client, and its connection to the server, which is opened when first needed."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a connection is served within a task")
        self.served: Final = task
        self.swallowed = False
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._upstream: asyncio.StreamWriter | None = None
        self._answers: asyncio.Task[None] | None = None
        self._request = RequestEnd()
        self._answer_begun = False

    def abort(self) -> None:
        """Reset it, whatever it waits for."""
        for writer in (self._writer, self._upstream):
            if writer is not None:
                _reset(writer)
        if self._answers is not None:
            self._answers.cancel()

    async def serve(self) -> None:
        try:
            while data := await self._reader.read(CHUNK):
                await self._request_bytes(data)
        except OSError:
            pass
        finally:
            self._writer.close()
            if self._upstream is not None:
                self._upstream.close()
            if self._answers is not None:
                self._answers.cancel()

    async def _request_bytes(self, data: bytes) -> None:
        match self._proxy.behaviour:
            case Silent():
                self.swallowed = True
            case Resetting() | Down():
                self.abort()
            case Answering(status, retry_after):
                for _ in range(self._request.ends_within(data)):
                    self._writer.write(answer_of(status, retry_after))
                await self._writer.drain()
            case _:
                self._answer_begun = False
                upstream = await self._connected()
                upstream.write(data)
                await upstream.drain()

    async def _connected(self) -> asyncio.StreamWriter:
        if self._upstream is None:
            try:
                reader, self._upstream = await asyncio.open_connection(HOST, self._proxy.target)
            except OSError:
                self.abort()
                raise
            self._answers = asyncio.create_task(self._hand_back(reader))
        return self._upstream

    async def _hand_back(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(CHUNK):
                await self._answer_bytes(data)
        except OSError:
            self.abort()
        finally:
            self._writer.close()

    async def _answer_bytes(self, data: bytes) -> None:
        begins, self._answer_begun = not self._answer_begun, True
        if isinstance(delayed := self._proxy.behaviour, Delayed) and begins:
            await asyncio.sleep(delayed.seconds)
        match self._proxy.behaviour:
            case Silent():
                self.swallowed = True
            case Resetting() | Down():
                self.abort()
            case Cut():
                self._writer.write(data[: len(data) // 2])
                await self._writer.drain()
                self._writer.close()
            case Trickling(pause) as trickling:
                while data and self._proxy.behaviour is trickling:
                    self._writer.write(data[:1])
                    data = data[1:]
                    await self._writer.drain()
                    await asyncio.sleep(pause)
                self._writer.write(data)
            case _:
                self._writer.write(data)
                await self._writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    # With lingering off, the close is a reset instead of an orderly shutdown.
    raw = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
