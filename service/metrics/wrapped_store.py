"""Wraps each call of a store, to time, count or trace it if that is turned on."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, cast

from indexing.errors import StaleKeyError, TooManyQuarantinesError, UnknownRepositoryError
from indexing.store.interface import Store

Call: TypeAlias = Callable[..., Awaitable[Any]]

# The names of all calls of a store but `close`.
CALLS: Final = tuple(
    name for name, _ in inspect.getmembers(Store, inspect.iscoroutinefunction) if name != "close"
)

# Errors that the caller causes: nothing is wrong with the store.
CALLER_ERRORS: Final = (StaleKeyError, TooManyQuarantinesError, UnknownRepositoryError)


def wrap_calls(store: Store, wrap: Callable[[str, Call], Call]) -> Store:
    """Return the same store, with each call replaced by `wrap` of its name and the call."""
    calls = {name: wrap(name, getattr(store, name)) for name in CALLS}
    # The revision is read for each cached response, and costs less than a wrapper would.
    return cast(Store, SimpleNamespace(**calls, revision=store.revision, close=store.close))
