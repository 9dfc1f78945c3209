"""The types of layers and handlers, and the function that puts layers around a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse

# A handler of any request, and a handler of the requests of one route.
Handler: TypeAlias = Callable[[BaseRequest], Awaitable[StreamResponse]]
RouteHandler: TypeAlias = Callable[[web.Request], Awaitable[StreamResponse]]

# One concern of every request. It calls only the handler that it wraps.
Layer: TypeAlias = Callable[[Handler], Handler]
RouteLayer: TypeAlias = Callable[[RouteHandler], RouteHandler]

H = TypeVar("H")


def wrap(handler: H, layers: Sequence[Callable[[H], H]]) -> H:
    """Put layers around a handler; the first layer is the outermost."""
    for layer in reversed(layers):
        handler = layer(handler)
    return handler
