"""Requests and responses as text on one connection."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from tests.service.front_door import FrontDoor
from tests.service.processes import TIMEOUT

# Headers that differ in every response.
OWN = frozenset({"date", "x-request-id"})


class Message:
    """One response as received on the wire."""

    def __init__(self, head: bytes, body: bytes) -> None:
        self.status, *fields = head.decode().split("\r\n")
        self.fields = [tuple(field.split(": ", 1)) for field in fields]
        self.body = body

    @property
    def lasting(self) -> list[tuple[str, str]]:
        """Return the headers that are the same in every response."""
        return sorted(
            (name.lower(), value) for name, value in self.fields if name.lower() not in OWN
        )

    def value(self, name: str) -> str | None:
        found = [value for known, value in self.fields if known.lower() == name]
        assert len(found) < 2, (name, found)
        return found[0] if found else None


async def exchange(door: FrontDoor, *requests: str, closed: bool = False) -> list[Message]:
    """Send requests one after another on one connection; with `closed`, check that it closes."""
    address = urlsplit(door.base)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    messages = []
    try:
        for request in requests:
            writer.write(request.encode())
            head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
            message = Message(head, b"")
            size = 0 if request.startswith("HEAD") else int(message.value("content-length") or 0)
            message.body = await reader.readexactly(size)
            messages.append(message)
        if closed:
            assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
    finally:
        writer.close()
    return messages


async def exchange_bytes(door: FrontDoor, sent: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send raw bytes and read one response; the service may still expect more input."""
    address = urlsplit(door.base)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(sent)
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(0 if sent[:5] == b"HEAD " else int(headers["content-length"]))
    writer.close()
    await writer.wait_closed()
    return int(status.split()[1]), headers, body


def ask(door: FrontDoor, path: str, *fields: str, method: str = "GET", version: str = "1.1") -> str:
    host = urlsplit(door.base).netloc
    lines = (
        f"{method} {path} HTTP/{version}",
        f"Host: {host}",
        f"Authorization: Bearer {door.key}",
    )
    return "\r\n".join((*lines, *fields, "", ""))
