"""Cuts the type and the message of a failure to the length that is stored. Pure."""

from __future__ import annotations

from typing import Final

# The body of a failure is often a whole log. Its start is enough to distinguish failures, and every
# execution stores its own copy.
MESSAGE_MAX_LENGTH: Final = 4_000
TYPE_MAX_LENGTH: Final = 500


def cut_type(text: str | None) -> str | None:
    """Return the type of a failure as it is stored; `None` if it is missing or blank."""
    return _cut(text, TYPE_MAX_LENGTH)


def cut_message(text: str | None) -> str | None:
    """Return the message of a failure as it is stored; `None` if it is missing or blank."""
    return _cut(text, MESSAGE_MAX_LENGTH)


def _cut(text: str | None, length: int) -> str | None:
    return (text.strip()[:length] or None) if text else None
