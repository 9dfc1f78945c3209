"""Long responses, and clients that do not read them."""

from __future__ import annotations

import asyncio
import socket

from indexing.models.quarantines import QuarantineRequest
from indexing.names import RepositoryName
from tests.builders import WIDGETS, after
from tests.service.front_door import FrontDoor


async def add_long_quarantines(
    door: FrontDoor, count: int, repository: RepositoryName = WIDGETS
) -> None:
    """Add quarantines that take 8 KB each in an answer."""
    for number in range(count):
        request = QuarantineRequest(f"hinge.{number}", "x" * 8_000)
        await door.store.add_quarantine(repository, request, after())


def stop_reading(writer: asyncio.StreamWriter, room: int) -> asyncio.Transport:
    """Let the client read nothing from now on; return its transport.

    The system has room for that many bytes of what arrives.
    """
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    transport = writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()
    return transport
