"""A raw connection to the service, for tests of what depends on the bytes of a request."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass

from yarl import URL

from indexing.identifiers import derive_test_id
from service.server.protocol import Connection
from tests.builders import WIDGETS
from tests.service.front_door import TESTS, FrontDoor

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}"


@dataclass
class Wire:
    """One connection, and how many of its requests were answered before they were parsed."""

    door: FrontDoor
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    unparsed: int = 0

    @classmethod
    async def open(cls, door: FrontDoor) -> Wire:
        url = URL(door.base)
        return cls(door, *await asyncio.open_connection(url.host, url.port))

    @property
    def connection(self) -> Connection:
        """The service's side of the connection."""
        own = self.writer.get_extra_info("sockname")
        server = self.door.runner.server
        assert server is not None
        (found,) = (
            each
            for each in server.connections
            if isinstance(each, Connection)
            and each.transport is not None
            and each.transport.get_extra_info("peername")[:2] == own[:2]
        )
        return found

    def head(self, target: str = HINGE, *fields: str) -> bytes:
        lines = [f"GET {target} HTTP/1.1", "Host: a", f"Authorization: Bearer {self.door.key}"]
        return "\r\n".join([*lines, *fields, "", ""]).encode()

    async def read(self) -> tuple[int, dict[str, str], bytes]:
        start = await self.reader.readuntil(b"\r\n\r\n")
        status = int(start.split(b" ", 2)[1])
        found = re.findall(r"^([^:\r\n]+): ([^\r\n]*)", start.decode(), re.MULTILINE)
        fields = {name.lower(): value for name, value in found}
        body = await self.reader.readexactly(int(fields.get("content-length", 0)))
        return status, fields, body

    async def ask(self, head: bytes) -> tuple[int, dict[str, str], bytes]:
        self.writer.write(head)
        return await self.read()

    async def repeat(self, head: bytes) -> None:
        """Repeat the request until the service knows its head."""
        for _ in range(4):
            assert (await self.ask(head))[0] in (200, 304)
        self.unparsed = 0

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
