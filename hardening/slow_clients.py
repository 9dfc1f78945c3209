"""`python -m hardening.slow_clients PORT COUNT TARGET`: runs slow clients until stdin ends.

Half of them send a byte now and then, the others never read their answers. The key is in `KEY`.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
from contextlib import suppress

from hardening.raw_http import build_request

# The interval between two bytes: a client on a very bad line.
_PAUSE = 1.0
_ARRIVAL = 4.0
# The number of pauses after which a client that is still connected sends its request again.
_TIMEOUT_SECONDS = 90


async def send_slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    for at in range(len(data)):
        if writer.is_closing():
            return
        writer.write(data[at : at + 1])
        await asyncio.sleep(_PAUSE)


async def read_slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    transport = writer.transport
    if isinstance(transport, asyncio.Transport):
        transport.pause_reading()
    writer.write(data)
    for _ in range(_TIMEOUT_SECONDS):
        await asyncio.sleep(_PAUSE)
        if transport.is_closing():
            return


async def run_client(port: int, number: int, data: bytes, ready: asyncio.Semaphore) -> None:
    """Send or read slowly, and reconnect after a disconnect."""
    exchange = read_slowly if number % 2 else send_slowly
    # Spread the arrivals: a thousand clients at the same moment are a flood, not slow clients.
    await asyncio.sleep(random.random() * _ARRIVAL)
    while True:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        ready.release()
        with suppress(ConnectionError):
            await exchange(writer, data)
        writer.transport.abort()


async def run(port: int, count: int, target: str) -> None:
    data = build_request(target, os.environ["KEY"], b"X-Padding: " + b"a" * 2_000)
    ready = asyncio.Semaphore(0)
    clients = [asyncio.create_task(run_client(port, n, data, ready)) for n in range(count)]
    for _ in range(count):
        await ready.acquire()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
