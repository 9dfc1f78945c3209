"""Builds the query of quarantines in force. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from indexing.timestamps import to_microseconds


def in_force(now: datetime, *clauses: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query for the slots with a quarantine in force at `now` that match all clauses."""
    ended = {"range": {"expires_at": {"lte": to_microseconds(now)}}}
    filters = [*clauses, {"exists": {"field": "quarantine_id"}}]
    return {"bool": {"filter": filters, "must_not": [ended]}}
