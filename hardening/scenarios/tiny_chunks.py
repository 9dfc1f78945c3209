"""Bodies in chunks of one byte, which take the parser the most: they do not delay other tenants."""

from __future__ import annotations

import asyncio
import itertools
from time import monotonic

from hardening.findings import Finding
from hardening.harness import Harness
from hardening.raw_http import NoResponseError, RawConnection, build_request
from hardening.tenants import Sent, Tenants, watched_tenants

CONNECTIONS = 20
SECONDS = 5.0
# What the connections together send in a second: the rate of a fast line, not that of a loopback
# interface, over which the sender alone would keep the processor busy.
_RATE = 8_000_000
_PIECE_BYTES = 64 * 1024
# Lines without an event, so that nothing else takes time.
_CHUNK = b"1\r\n\n\r\n"
_PIECE = _CHUNK * (_PIECE_BYTES // len(_CHUNK))
_PIECES = 16
_UNKNOWN = "mw_unknown"


async def run(
    harness: Harness, *, connections: int = CONNECTIONS, seconds: float = SECONDS
) -> list[Finding]:
    place = await harness.new_store("sqlite")
    sent = Sent()
    async with watched_tenants(harness, place) as tenants:
        for phase, key in (("a known key", tenants.sender_key), ("an unknown key", _UNKNOWN)):
            async with tenants.watcher.during(phase):
                end = monotonic() + seconds
                async with asyncio.TaskGroup() as group:
                    for _ in range(connections):
                        group.create_task(_upload(tenants, key, connections, end, sent))
    what = "bodies in chunks of one byte"
    service_errors = [*sent.service_errors, *tenants.running.service_errors()]
    return [
        tenants.watcher.report(what),
        Finding(
            f"responses to {what}",
            f"{connections} connections, {_RATE // 1_000_000} MB a second: {sent}",
            "all answered, no 5xx except 503 with Retry-After",
            bool(sent.statuses) and not service_errors and not sent.unanswered,
            "; ".join([*service_errors[:2], *sent.unanswered[:2]]),
        ),
    ]


async def _upload(tenants: Tenants, key: str, connections: int, end: float, sent: Sent) -> None:
    """Upload again and again at this connection's share of the rate."""
    head = build_request(
        tenants.path("logs"),
        key,
        b"Content-Type: application/x-ndjson",
        b"Transfer-Encoding: chunked",
        method="POST",
    )
    pause = len(_PIECE) * connections / _RATE
    while monotonic() < end:
        connection = RawConnection(tenants.port)
        try:
            await connection.send(head)
            for _ in itertools.repeat(None, _PIECES):
                await connection.send(_PIECE)
                await asyncio.sleep(pause)
            await connection.send(b"0\r\n\r\n")
            response = await connection.read()
        except (NoResponseError, OSError, TimeoutError) as error:
            sent.unanswered.append(type(error).__name__)
        else:
            sent.record(response.status, response.header("retry-after"), "an upload")
        finally:
            connection.abort()
