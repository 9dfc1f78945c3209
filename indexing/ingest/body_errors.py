"""What is wrong with a request body as a whole.

A module of its own: `indexing/ingest/bodies.py` also loads the schema of every event.
"""

from __future__ import annotations

from indexing.errors import InvalidValueError


class BodyError(InvalidValueError):
    """A body cannot be parsed; the text says why."""


class BodyTooLargeError(BodyError):
    """A body exceeds a limit."""
