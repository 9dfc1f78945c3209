"""A response that is made while it is sent, as fast as its client reads."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from typing import Final

from aiohttp.abc import AbstractStreamWriter
from aiohttp.web import BaseRequest, StreamResponse
from multidict import CIMultiDict

from indexing.errors import MergewatchError
from service.http.problems import Problem

_log = logging.getLogger(__name__)


# Closing discards what was not sent, and resets the connection; see socket(7).
_RESET: Final = struct.pack("ii", 1, 0)


class BrokenStreamError(MergewatchError):
    """A stream is incomplete, and the client must notice."""


class StreamedResponse(StreamResponse):
    """A 200 whose body comes from a generator, after the layers have added their headers.

    By then the handler has returned, so it holds no slot of admission control. A failure resets the
    connection, so that an incomplete body never looks complete. `release` is called at the end.
    The body is made within the context manager `around`, which a layer may set.
    """

    def __init__(
        self,
        headers: CIMultiDict[str],
        pieces: AsyncGenerator[bytes, None],
        release: Callable[[], None],
    ) -> None:
        super().__init__(headers=headers)
        self._pieces = pieces
        self._release = release
        self._request: BaseRequest | None = None
        self._transport: asyncio.Transport | None = None
        self.around: AbstractContextManager[object] = nullcontext()

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        # At a shutdown, the request loses its transport before this response is cancelled.
        self._request, self._transport = request, request.transport
        try:
            return await super().prepare(request)
        except BaseException:
            self._release()
            raise

    async def write_eof(self, data: bytes = b"") -> None:
        request = self._request
        if request is None or data:
            raise RuntimeError("a streamed response is prepared first, and makes its body itself")
        try:
            with self.around:
                async with aclosing(self._pieces) as pieces:
                    if request.method != "HEAD":
                        async for piece in pieces:
                            await self.write(piece)
                await super().write_eof()
        except ConnectionError:
            raise
        except asyncio.CancelledError:
            # The service stops before the stream ends.
            _reset(self._transport)
            raise
        except Exception as error:
            if isinstance(error, (MergewatchError, Problem)):
                _log.warning("stream broken off", extra={"reason": str(error)})
            else:
                _log.exception("unhandled error in a stream")
            _reset(self._transport)
            raise ConnectionResetError("the stream was broken off") from error
        finally:
            self._release()


def _reset(transport: asyncio.Transport | None) -> None:
    """Reset a connection: the client notices, even if the end of the connection ends the body."""
    if transport is None:
        return
    wire = transport.get_extra_info("socket")
    # A closed socket cannot be reset, and needs no reset: its client is gone.
    with suppress(OSError, ValueError):
        if wire is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
