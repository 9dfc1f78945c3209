"""Makes connections to Redis, and tries each with what the cache will ask of it.

A replica, a user with too few rights and a node of a cluster all accept connections: what they
refuse shows only when it is asked for.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from service.cache.redis_failures import Reason, find_new_node, find_reason, is_about_one_key

LIMIT_SECONDS: Final = 0.05
# The end of that limit, in a later iteration of the event loop: a reply that arrived while the loop
# was held up is read first.
GRACE_SECONDS: Final = 0.01
# In the background, where TLS and a name server take their time.
CONNECT_SECONDS: Final = 1.0

# From the node in the URL to the one that has the slot, and once more if it moved just then.
MAX_REDIRECTS: Final = 3

# A probe leaves nothing behind, even where it is broken off.
_PROBE_MILLISECONDS: Final = 1_000

# The reply to a command that needs memory, where there is none left.
FULL: Final = object()

Command = tuple[bytes | str | int, ...]


class RedisConnector:
    """Finds the server behind a URL. The URL is in no message and no `repr`."""

    def __init__(self, url: str, probe_key: bytes) -> None:
        given: dict[str, Any] = dict(parse_url(url))
        self._kind: type[AbstractConnection] = given.pop("connection_class", Connection)
        # Without these: two answers that nobody reads, and a minute of retries on a silent host.
        self._arguments = given | {
            "driver_info": None,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": None,
            "socket_connect_timeout": None,
        }
        # Several processes may probe at once.
        self._probe_key = b"%s:%s" % (probe_key, secrets.token_hex(8).encode())
        # The node of a cluster that has the slot of the cache, once another node pointed to it.
        self._node: dict[str, Any] = {}

    @property
    def address(self) -> str:
        """Where the server is, without credentials."""
        arguments = self._arguments | self._node
        if "path" in arguments:
            return str(arguments["path"])
        host = str(arguments.get("host", "localhost"))
        return f"{f'[{host}]' if ':' in host else host}:{arguments.get('port', 6379)}"

    def follow(self, error: Exception) -> bool:
        """Turn to the node that the error points to, if it does."""
        if issubclass(self._kind, UnixDomainSocketConnection):
            return False
        arguments = self._arguments | self._node
        node = find_new_node(error, str(arguments.get("host", "localhost")))
        if node is not None:
            self._node = {"host": node[0], "port": node[1]}
        return node is not None

    async def connect(self) -> tuple[AbstractConnection, list[Any]]:
        """A connection that serves all commands of the cache, and the replies to the probe.

        Raises:
            Exception: there is none; the next attempt begins at the URL.
        """
        redirects = 0
        while True:
            connection = self._kind(**self._arguments | self._node)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await connection.connect()
                async with time_limit(LIMIT_SECONDS):
                    return connection, await self._probe(connection)
            except Exception as error:
                await connection.disconnect(nowait=True)
                redirects += 1
                if redirects > MAX_REDIRECTS or not self.follow(error):
                    self._node = {}
                    raise
            except BaseException:
                await connection.disconnect(nowait=True)
                raise

    async def _probe(self, connection: AbstractConnection) -> list[Any]:
        key = self._probe_key
        commands: list[Command] = [
            ("SET", key, 0, "PX", _PROBE_MILLISECONDS, "NX"),
            ("INCRBY", key, 1),
            ("PEXPIRE", key, _PROBE_MILLISECONDS),
            ("PTTL", key),
            ("GET", key),
            ("MGET", key),
            ("DEL", key),
        ]
        await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        return [await read_reply(connection) for _ in commands]


async def read_reply(connection: AbstractConnection) -> Any:
    """One reply; nothing where the key's value does not fit the command, `FULL` without memory.

    Raises:
        Exception: the connection is of no use any more.
    """
    try:
        return await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        if find_reason(error) is Reason.OOM:
            return FULL
        if is_about_one_key(error):
            return None
        raise


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Limit the time of what is within."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(
            max(0.0, seconds - GRACE_SECONDS),
            lambda: limit.reschedule(loop.time() + GRACE_SECONDS),
        )
        try:
            yield
        finally:
            timer.cancel()
