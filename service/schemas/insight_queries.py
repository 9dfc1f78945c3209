"""The query parameters of the insights, with all their bounds. Knows no request and no store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexing.identifiers import MAX_INTEGER
from indexing.models.executions import Conclusion
from indexing.models.groups import Grouping
from indexing.models.listed_repositories import RepositorySort
from indexing.models.tests import HealthStatus
from service.schemas.limits import DEFAULT_RANGE, MAX_RANGE, MAX_REF_LENGTH
from service.schemas.queries import (
    OWNERS,
    AnyOf,
    Choice,
    Name,
    Number,
    PagedQuery,
    Text,
    Timestamp,
    absent,
    check_order,
    description,
    filter_by,
)
from service.schemas.query import Query


class RangeOfTime(Query):
    """The parameters of every operation over a range of time."""

    start = Timestamp(
        load_default=absent,
        metadata=description(
            f"Start of the range, inclusive; default `end` minus {DEFAULT_RANGE.days} days. The "
            f"range has at most {MAX_RANGE.days} days."
        ),
    )
    end = Timestamp(
        load_default=absent, metadata=description("End of the range, exclusive; default now.")
    )

    def check(self, values: Mapping[str, Any]) -> None:
        check_order(values, "start", "end")


class RangeQuery(RangeOfTime, PagedQuery):
    """The parameters of every list over a range of time."""


class StatsQuery(RangeOfTime):
    """The range and the filters of a series; it has whole UTC days."""

    pipeline_name = filter_by(Text(), "Only of these pipelines.")
    job_name = filter_by(Text(), "Only of these jobs.")


class HealthQuery(Query):
    """The parameter of the report on the health of a test."""

    include = AnyOf(
        Choice(OWNERS),
        metadata=description(
            "`owners`: the owners of the file of the test, by the stored CODEOWNERS file."
        ),
    )


class GroupsQuery(Query):
    """The parameter of the groups of tests."""

    by = Choice.of(
        Grouping,
        required=True,
        metadata=description("What the tests are grouped by."),
    )


class ExecutionsQuery(RangeQuery):
    """The filters of a test's executions."""

    branch = filter_by(Text(low=1, high=MAX_REF_LENGTH), "Of these branches.")
    commit = filter_by(Text(low=1), "Of these commits.")
    pipeline_name = filter_by(Text(), "Only of these pipelines.")
    job_name = filter_by(Text(), "Only of these jobs.")
    conclusion = filter_by(Choice.of(Conclusion), "Only those that ended so.")


class FailuresQuery(PagedQuery):
    """The filters of a test's failures."""

    branch = filter_by(Text(low=1, high=MAX_REF_LENGTH), "On these branches.")


class RunsQuery(PagedQuery):
    """The filters of the runs."""

    commit = filter_by(Text(low=1), "Of these commits.")
    branch = filter_by(Text(low=1, high=MAX_REF_LENGTH), "Of these branches.")
    pull_request = filter_by(Number(0, MAX_INTEGER), "Of these pull requests.")
    pipeline_name = filter_by(Text(), "Only of these pipelines.")
    job_name = filter_by(Text(), "Only of these jobs.")


class TransitionsQuery(RangeQuery):
    """The filters of changes of health."""

    health_status = filter_by(Choice.of(HealthStatus), "Only those into one of these.")


class RepositoriesQuery(PagedQuery):
    """The order of an owner's repositories, or the name of one of them."""

    repository = Name(
        load_default=absent,
        metadata=description(
            "Only the repository of that name. A token of the code host has to name one, because "
            "the host is asked about one repository at a time."
        ),
    )
    sort = Choice.of(
        RepositorySort,
        load_default=RepositorySort.NAME.value,
        metadata=description("By name; or the most broken tests first, then the most flaky ones."),
    )
