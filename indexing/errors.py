"""The errors that the index raises. Driver exceptions never leave their backend."""

from __future__ import annotations

from typing import Final

# What the rules raise for stored values that they do not expect. No error below is one of them, nor
# is any of a driver.
DATA_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError)


class MergewatchError(Exception):
    """The base of all errors that this package raises on purpose; messages are safe to show."""


class InvalidValueError(MergewatchError):
    """A value does not have the required form."""


class StoreError(MergewatchError):
    """The store could not carry out a call."""


class StoreUnavailableError(StoreError):
    """The store is unreachable, locked, damaged or out of space; retrying later may help."""


class StoreVersionError(StoreUnavailableError):
    """The store has a version that this program cannot use; an operator has to act."""


class UnknownRepositoryError(StoreError):
    """No repository of that name is known to the store."""


class StaleKeyError(StoreError):
    """The row that a page should continue from no longer exists."""


class TooManyWebhooksError(StoreError):
    """A repository already has the largest allowed number of webhooks."""


class TooManyQuarantinesError(StoreError):
    """A repository or a test has as many quarantines in force as people may add already."""
