"""The types of a layer of middleware and of the handler that it wraps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp.web import BaseRequest, StreamResponse

Handler = Callable[[BaseRequest], Awaitable[StreamResponse]]


class Layer(Protocol):
    """One concern of every request. It knows only the handler that it wraps."""

    def wrap(self, handler: Handler) -> Handler:
        """Return the handler with this layer around it."""
