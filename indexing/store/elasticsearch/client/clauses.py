"""The clauses of queries that several lists and counts share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def any_of(fields: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Build the clauses that each field has one of its values; without values, any will do."""
    return [{"terms": {field: [*values]}} for field, values in fields.items() if values]
