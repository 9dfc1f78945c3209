"""The errors that the index raises. Drivers' own exceptions never leave their backend."""

from __future__ import annotations


class MergewatchError(Exception):
    """Anything that this package raises on purpose; its text is fit to be shown."""


class InvalidValueError(MergewatchError):
    """A value does not have the form that its place asks for."""


class StoreError(MergewatchError):
    """The store could not do what it was asked."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, is locked, damaged or out of room: later may be better."""


class StoreVersionError(StoreUnavailableError):
    """The store is of a version that this program cannot use: an operator has to act."""


class UnknownRepositoryError(StoreError):
    """No repository of that name is known to the store."""


class StaleKeyError(StoreError):
    """The row that a page was to continue from is no longer there."""
