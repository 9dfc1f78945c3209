"""How values that JSON has no type for stand in documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from indexing.models.executions import PullRequest
from indexing.timestamps import from_microseconds, to_microseconds


def number_or_none(moment: datetime | None) -> int | None:
    return None if moment is None else to_microseconds(moment)


def moment_or_none(number: int | None) -> datetime | None:
    return None if number is None else from_microseconds(number)


def pull_document(pull: PullRequest | None) -> dict[str, Any] | None:
    return None if pull is None else asdict(pull)


def pull_of(document: Mapping[str, Any] | None) -> PullRequest | None:
    return None if document is None else PullRequest(**document)
