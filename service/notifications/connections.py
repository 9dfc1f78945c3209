"""Connections to the receivers of webhooks, which are servers of strangers.

They connect only to addresses that the setting allows. Each address is checked right before
connecting to it, so DNS rebinding cannot bypass the check.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from service.config.reach import Reach

# What a connection receives at most: one response, with the informational ones before it (1xx).
# The library bounds each of them, but not their number, and parses all that have arrived at once.
MAX_RECEIVED_BYTES: Final = 64 * 1024
# A system gives up a name after half a minute or more, and an attempt after ten seconds.
MAX_LOOKUPS: Final = 32

# Why an address is refused: one that the other value of the setting allows, and one that none does.
PRIVATE_REFUSED: Final = "the address is not public, which needs MERGEWATCH_NOTIFICATIONS=any"
NEVER_ALLOWED: Final = "the address is not allowed"

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class AddressRefusedError(OSError):
    """The setting does not allow connections to this address; the text says why."""


class TooManyLookupsError(OSError):
    """Too many names of receivers are being resolved already."""


class ReceiverConnector(aiohttp.TCPConnector):
    """Makes a connection for each request, to addresses within `reach`.

    A kept connection may have been closed by a receiver that accepts every request.
    """

    def __init__(self, reach: Reach) -> None:
        super().__init__(
            force_close=True,
            use_dns_cache=False,
            resolver=ThreadResolver(),
            socket_factory=_guard(reach),
        )
        handler: Callable[..., ResponseHandler] = _BoundedHandler
        self._factory = partial(handler, loop=asyncio.get_running_loop())


class _BoundedHandler(ResponseHandler):
    """Receives `MAX_RECEIVED_BYTES`, then ends the connection."""

    _room = MAX_RECEIVED_BYTES

    def data_received(self, data: bytes) -> None:
        super().data_received(data[: self._room])
        self._room = max(0, self._room - len(data))
        if not self._room and self.transport is not None:
            self.transport.abort()


class ThreadResolver(AbstractResolver):
    """Resolves names in threads of its own.

    The pool of the event loop resolves two names at once, for the whole process, and cannot end
    before they are resolved or given up. So the names of receivers would hold up each other and the
    end of the process. A thread here is a daemon, and there is one for each name.
    """

    def __init__(self) -> None:
        self._lookups: dict[tuple[str, int, int], asyncio.Future[list[Any]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host.

        Raises:
            OSError: it has none, or too many names are being resolved.
        """
        found = await asyncio.shield(self._look_up(host, port, family))
        return [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=address[1],
                family=of_family,
                proto=protocol,
                flags=_NUMERIC,
            )
            for of_family, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Do nothing: threads in progress end with their look-up, or with the process."""

    def _look_up(self, *name: Any) -> asyncio.Future[list[Any]]:
        """Return the look-up of a host, port and family, which may be in progress already."""
        in_progress = self._lookups.get(name)
        if in_progress is not None:
            return in_progress
        if len(self._lookups) >= MAX_LOOKUPS:
            raise TooManyLookupsError("too many names are being resolved")
        loop = asyncio.get_running_loop()
        lookup: asyncio.Future[list[Any]] = loop.create_future()
        self._lookups[name] = lookup

        def finish(outcome: list[Any] | OSError) -> None:
            del self._lookups[name]
            if isinstance(outcome, OSError):
                lookup.set_exception(outcome)
                # Those who waited may have given up, and nobody else asks for it.
                lookup.exception()
            else:
                lookup.set_result(outcome)

        def work() -> None:
            outcome = _resolve(*name)
            # The loop may be closed by now.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, outcome)

        try:
            threading.Thread(target=work, name="webhook-name", daemon=True).start()
        except RuntimeError as error:
            del self._lookups[name]
            raise OSError(str(error)) from error
        return lookup


def _resolve(host: str, port: int, family: int) -> list[Any] | OSError:
    try:
        return socket.getaddrinfo(
            host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
    except OSError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whoever waits has to learn of any
        return OSError(f"the name cannot be resolved: {error}")


def _guard(reach: Reach) -> Callable[[Any], socket.socket]:
    def connect_to(address: Any) -> socket.socket:
        family, kind, protocol, _, socket_address = address
        host = str(socket_address[0])
        if not reach.allows(host):
            raise AddressRefusedError(PRIVATE_REFUSED if Reach.ANY.allows(host) else NEVER_ALLOWED)
        return socket.socket(family, kind, protocol)

    return connect_to
