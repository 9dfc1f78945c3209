"""The parameters of lists. A test compares them with the OpenAPI document of the service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypedDict
from uuid import UUID

Outcome = Literal["success", "failure", "pending", "neutral"]


class PageSize(TypedDict, total=False):
    """The parameter of every list: the number of rows that one request returns."""

    per_page: int


class QuarantineOptions(TypedDict, total=False):
    """What else a quarantine may have; `branch` may be a glob, and is every branch if left out."""

    branch: str
    owner: str
    expires_at: datetime | str


class EventFilters(TypedDict, total=False):
    """Without a range, the newest day. Several values of one parameter mean any of them."""

    pull_request: int | Sequence[int]
    base_ref: str
    event_type: str | Sequence[str]
    trigger: str | Sequence[str]
    outcome: Outcome | Sequence[Outcome]
    not_event_type: str | Sequence[str]
    not_trigger: str | Sequence[str]
    not_outcome: Outcome | Sequence[Outcome]
    not_pull_request: int | Sequence[int]
    received_from: datetime | str
    received_to: datetime | str
    per_page: int


class TestFilters(TypedDict, total=False):
    """`test_name` takes globs: `*` is any text, `?` one character."""

    sort: Literal["executions_count", "test_name", "pipeline_name", "job_name"]
    direction: Literal["asc", "desc"]
    pipeline_name: str | Sequence[str]
    pipeline_name_exclude: str | Sequence[str]
    job_name: str | Sequence[str]
    job_name_exclude: str | Sequence[str]
    per_page: int


class QuarantineFilters(TypedDict, total=False):
    """`branch` selects what applies to that branch: the branch itself, patterns, all branches."""

    branch: str
    test_id: UUID | str
    source: Literal["manual", "auto"]
    per_page: int
