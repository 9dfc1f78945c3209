"""The requests of an existing command-line client that manages quarantines, byte for byte.

They were recorded from its commands add, list, get and remove. It sends a body without an
`Accept` of its own, reads the whole list for `get`, and takes 200, 201 and 204 as success.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson

from indexing.models.keys import Scope
from tests.service.front_door import QUARANTINES, FrontDoor

NAME = "suite.test é/ü?*"


@dataclass(frozen=True)
class Client:
    """Sends what was recorded, on one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str
    key: str

    async def send(self, method: str, target: str, body: bytes = b"") -> tuple[int, Any]:
        """Send a request; return the status, and the JSON of the body if it has one."""
        kind = b"content-type: application/json\r\n" if body else b""
        length = b"content-length: %d\r\n" % len(body) if body else b""
        self.writer.write(
            f"{method} {target} HTTP/1.1\r\nauthorization: Bearer {self.key}\r\n".encode()
            + kind
            + f"accept: */*\r\nuser-agent: a-client/0.0.0\r\nhost: {self.host}\r\n".encode()
            + length
            + b"\r\n"
            + body
        )
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
            size = int(fields.get("content-length", "0"))
            content = await self.reader.readexactly(size)
        return int(head.split()[1]), orjson.loads(content) if content else None


async def test_its_commands_add_list_get_and_remove_work(door: FrontDoor) -> None:
    host = door.base.removeprefix("http://")
    address, port = host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    client = Client(reader, writer, host, await door.new_key(Scope.QUARANTINE))

    everywhere = b'{"test_name":"other","reason":"x"}'
    status, other = await client.send("POST", QUARANTINES, everywhere)
    assert status == 201
    assert await client.send("POST", QUARANTINES, everywhere) == (200, other)
    hostile = f'{{"test_name":"{NAME}","reason":"flaps =1","branch":"release/*"}}'
    status, added = await client.send("POST", QUARANTINES, hostile.encode())
    assert status == 201

    status, listed = await client.send("GET", QUARANTINES)
    assert status == 200
    by_name = {row["test_name"]: row for row in listed["quarantined_tests"]}
    assert by_name["other"]["branch"] is None
    assert {**by_name[NAME], "created_at": ""} == {
        "id": added["id"],
        "test_name": NAME,
        "reason": "flaps =1",
        "branch": "release/*",
        "created_at": "",
        "source": "manual",
        "is_recovered": False,
    }

    place = f"{QUARANTINES}/{added['id']}"
    assert await client.send("DELETE", place) == (204, None)
    # The connection is still in step after a response without a body.
    status, problem = await client.send("DELETE", place)
    assert (status, problem["title"]) == (404, "Not found")
    status, problem = await client.send("POST", QUARANTINES, b'{"test_name":"bad","reason":""}')
    assert (status, problem["errors"][0]["field"]) == (422, "reason")
    status, listed = await client.send("GET", QUARANTINES)
    assert [row["id"] for row in listed["quarantined_tests"]] == [other["id"]]
    writer.close()
    await writer.wait_closed()
