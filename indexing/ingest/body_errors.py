"""Errors of a request body as a whole.

They are in a separate module, because `indexing/ingest/bodies.py` also loads the schemas of all
events.
"""

from __future__ import annotations

from indexing.errors import InvalidValueError


class BodyError(InvalidValueError):
    """A body cannot be parsed; the message says why."""


class BodyTooLargeError(BodyError):
    """A body exceeds a limit."""
