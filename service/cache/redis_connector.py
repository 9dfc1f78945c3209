"""Connects to Redis, and tests each connection with the commands that the cache needs.

A replica, a user with too few rights and a node of a cluster all accept connections: only a command
shows what they refuse.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from service.cache.redis_failures import Reason, find_new_node, find_reason, is_about_one_key

LIMIT_SECONDS: Final = 0.05
# The last part of that limit begins in a later iteration of the event loop, so that a reply that
# arrived while the loop was blocked is read before the limit ends.
GRACE_SECONDS: Final = 0.01
# Connecting takes longer (TLS, DNS), but happens in the background.
CONNECT_SECONDS: Final = 1.0

# From the node in the URL to the one that has the slot, and once more if it moved just then.
MAX_REDIRECTS: Final = 3

# The probe's key expires, so that even an interrupted probe leaves nothing behind.
_PROBE_MILLISECONDS: Final = 1_000

# Stands for the reply to a command that Redis refused because its memory is full.
FULL: Final = object()

Command = tuple[bytes | str | int, ...]


class _OneConnection(ConnectionPool):
    """A pool of one connection, which never reconnects by itself.

    The library's pool would reconnect within a request, to a server that was not tested. It would
    also check the socket for data before each command, which costs as much as a look-up.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._one: AbstractConnection = self.connection_class(**self.connection_kwargs)

    async def connect(self) -> None:
        await self._one.connect()

    async def get_connection(self, *_: object, **__: object) -> AbstractConnection:
        if not self._one.is_connected:
            raise RedisConnectionError("the connection is closed")
        return self._one

    async def release(self, connection: AbstractConnection) -> None:
        """Keep the connection: there is one user at a time."""

    async def aclose(self) -> None:
        await self._one.disconnect(nowait=True)


class RedisClient:
    """A client with one connection, which returns raw replies."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._pool = _OneConnection(**arguments)
        self._client = Redis(connection_pool=self._pool)
        self._client.response_callbacks.clear()

    async def connect(self) -> None:
        await self._pool.connect()

    async def close(self) -> None:
        await self._pool.aclose()

    async def execute(self, commands: Sequence[Command]) -> list[Any]:
        """Send the commands at once and return their replies.

        A reply is `None` if the value of the key does not fit the command, and `FULL` if there is
        no memory left.

        Raises:
            Exception: the connection cannot be used any more.
        """
        if len(commands) == 1:
            # A pipeline costs twice as much, and most look-ups are one MGET.
            try:
                return [await self._client.execute_command(*commands[0])]
            except ResponseError as error:
                return [_reply_of(error)]
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        return [_reply_of(reply) for reply in await pipeline.execute(raise_on_error=False)]


class RedisConnector:
    """Finds the server behind a URL. The URL appears in no message and no `repr`."""

    def __init__(self, url: str, probe_key: bytes) -> None:
        # The defaults send two commands that we do not need, and retry a silent host for a minute.
        self._arguments: dict[str, Any] = parse_url(url) | {
            "driver_info": None,
            "decode_responses": False,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": None,
            "socket_connect_timeout": None,
        }
        # A random name: several processes may probe at once.
        self._probe_key = b"%s:%s" % (probe_key, secrets.token_hex(8).encode())
        # The cluster node that has the slot of the cache, once another node has redirected to it.
        self._node: dict[str, Any] = {}
        # The arguments of the newest connection.
        self._last: Mapping[str, Any] = self._arguments

    @property
    def address(self) -> str:
        """The address of the newest connection, without credentials."""
        if "path" in self._last:
            return str(self._last["path"])
        host = str(self._last.get("host", "localhost"))
        return f"{f'[{host}]' if ':' in host else host}:{self._last.get('port', 6379)}"

    def follow(self, error: Exception) -> bool:
        """Switch to the node that the error redirects to; return whether it does redirect."""
        if "path" in self._last:
            return False
        node = find_new_node(error, str(self._last.get("host", "localhost")))
        if node is not None:
            self._node = {"host": node[0], "port": node[1]}
        return node is not None

    async def connect(self) -> tuple[RedisClient, list[Any]]:
        """Return a client that may use all commands of the cache, and the replies to the probe.

        Raises:
            Exception: no server is usable; the next attempt begins at the URL.
        """
        redirects = 0
        while True:
            self._last = self._arguments | self._node
            client = RedisClient(self._last)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await client.connect()
                async with TimeLimit(LIMIT_SECONDS):
                    return client, await client.execute(self._probe())
            except Exception as error:
                await client.close()
                redirects += 1
                if redirects > MAX_REDIRECTS or not self.follow(error):
                    self._node = {}
                    raise
            except BaseException:
                await client.close()
                raise

    def _probe(self) -> list[Command]:
        key = self._probe_key
        return [
            ("SET", key, 0, "PX", _PROBE_MILLISECONDS, "NX"),
            ("INCRBY", key, 1),
            ("PEXPIRE", key, _PROBE_MILLISECONDS),
            ("PTTL", key),
            ("GET", key),
            ("MGET", key),
            ("DEL", key),
        ]


def _reply_of(reply: Any) -> Any:
    if not isinstance(reply, ResponseError):
        return reply
    if find_reason(reply) is Reason.OOM:
        return FULL
    if is_about_one_key(reply):
        return None
    raise reply


class TimeLimit:
    """A time limit on the body of an `async with`. A generator would cost more."""

    __slots__ = ("_limit", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = max(0.0, seconds - GRACE_SECONDS)
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(
            self._seconds, lambda: self._limit.reschedule(loop.time() + GRACE_SECONDS)
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)
