"""Converts pull requests to and from their form in documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from indexing.models.executions import PullRequest


def pull_document(pull: PullRequest | None) -> dict[str, Any] | None:
    return None if pull is None else asdict(pull)


def pull_of(document: Mapping[str, Any] | None) -> PullRequest | None:
    return None if document is None else PullRequest(**document)
