"""What is wrong with a request body as a whole.

Those that receive bodies need these alone; the readers in `indexing/ingest/bodies.py` load every
schema of an event.
"""

from __future__ import annotations

from indexing.errors import InvalidValueError


class BodyError(InvalidValueError):
    """A body cannot be parsed; the text says why."""


class BodyTooLargeError(BodyError):
    """A body exceeds a limit."""
