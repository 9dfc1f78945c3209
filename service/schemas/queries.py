"""The query parameters of events, tests and quarantines, with their bounds. Knows no request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from marshmallow import ValidationError, fields
from marshmallow.validate import Length, OneOf, Range, Regexp

from indexing.events.catalogue import EVENT_TYPES
from indexing.globs import count_cost
from indexing.identifiers import MAX_INTEGER, read_uuid
from indexing.models.events import MAX_TRIGGER_LENGTH, Outcome
from indexing.models.quarantines import QuarantineSource
from indexing.models.tests import HealthStatus, TestSort
from indexing.names import REPOSITORY_PATTERN, check_repository
from indexing.owners.rules import MAX_OWNER_LENGTH
from indexing.owners.selecting import MAX_FILES, NO_OWNER
from indexing.timestamps import parse_timestamp
from service.schemas.limits import (
    CURSOR_MAX_LENGTH,
    DEFAULT_EVENT_RANGE,
    DEFAULT_PER_PAGE,
    MAX_GLOB_COST,
    MAX_PER_PAGE,
    MAX_REF_LENGTH,
    MAX_STARS,
    MAX_TOTAL,
    MAX_VALUE_LENGTH,
    MAX_VALUES,
)
from service.schemas.parsed import REQUIRED, Parsed
from service.schemas.query import Query

# As many digits as the largest integer has. ASCII digits only: `int` accepts others, too.
_DIGITS: Final = re.compile("[0-9]{1,19}")


# The values of `include`, which name optional parts of an answer.
METRICS: Final = "metrics"
TOTAL: Final = "total"
DETAILS: Final = "details"
OWNERS: Final = "owners"


class Parameter(fields.Field[Any]):
    """The base of all parameters; none may be null, as a query string has no null."""

    def __init__(self, *args: Any, **options: Any) -> None:
        messages = {**REQUIRED, **options.pop("error_messages", {})}
        super().__init__(*args, allow_none=False, error_messages=messages, **options)


class Text(Parameter, fields.String):
    """Any string within the given lengths."""

    def __init__(self, low: int = 0, high: int = MAX_VALUE_LENGTH, **options: Any) -> None:
        error = (
            f"must have {low} to {high} characters"
            if low
            else f"must have at most {high} characters"
        )
        super().__init__(validate=Length(low or None, high, error=error), **options)


class Number(Parameter, fields.Integer):
    """Decimal digits within the given bounds."""

    def __init__(self, low: int, high: int, **options: Any) -> None:
        self._error = f"must be an integer from {low} to {high}"
        super().__init__(validate=Range(low, high, error=self._error), **options)

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if not _DIGITS.fullmatch(value):
            raise ValidationError(self._error)
        return int(value)


class Choice(Parameter, fields.String):
    """One of a fixed set of strings; `named` describes them if there are too many to list."""

    def __init__(self, *choices: str, named: str | None = None, **options: Any) -> None:
        error = f"must be one of {named or ', '.join(choices)}"
        super().__init__(validate=OneOf(choices, error=error), **options)

    @classmethod
    def of(cls, values: type[Enum], **options: Any) -> Choice:
        """Return the choice between the values of an enumeration."""
        return cls(*(each.value for each in values), **options)


class Timestamp(Parameter, Parsed):
    """An RFC 3339 timestamp with a zone."""

    def __init__(self, **options: Any) -> None:
        metadata = {"format": "date-time", **options.pop("metadata", {})}
        super().__init__(parse_timestamp, metadata=metadata, **options)


class Uuid(Parameter, Parsed):
    """A UUID of any version in its canonical form."""

    def __init__(self, **options: Any) -> None:
        metadata = {"format": "uuid", **options.pop("metadata", {})}
        super().__init__(read_uuid, metadata=metadata, **options)


class Name(Parameter, Parsed):
    """The name of a repository without its owner."""

    def __init__(self, **options: Any) -> None:
        form = {"minLength": 1, "pattern": f"^{REPOSITORY_PATTERN}$"}
        super().__init__(check_repository, metadata=form | options.pop("metadata", {}), **options)


class Flag(Parameter, fields.Boolean):
    """True or false."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> bool:
        if value not in ("true", "false"):
            raise ValidationError("must be true or false")
        return bool(value == "true")


class AnyOf(Parameter, fields.List[Any]):
    """Up to 100 values. They load as a sorted tuple without repeats, which has the same meaning."""

    def __init__(self, inner: fields.Field[Any], **options: Any) -> None:
        low = 1 if options.get("required") else None
        error = f"must be given at most {MAX_VALUES} times"
        super().__init__(inner, validate=Length(low, MAX_VALUES, error=error), **options)

    def _deserialize(self, value: Any, *rest: Any, **options: Any) -> Any:
        # Too many values are refused before each of them is parsed.
        if len(value) > MAX_VALUES:
            return value
        return tuple(sorted(set(super()._deserialize(value, *rest, **options))))


class Pattern(Text):
    """A glob that is not empty."""

    def __init__(self, **options: Any) -> None:
        few_stars = Regexp(
            rf"^[^*]*(?:\*[^*]*){{0,{MAX_STARS}}}$", error=f"must have at most {MAX_STARS} '*'"
        )
        super().__init__(low=1, **options)
        self.validators.append(few_stars)


class Patterns(AnyOf):
    """Globs that are cheap enough together."""

    def _deserialize(self, value: Any, *rest: Any, **options: Any) -> Any:
        patterns = super()._deserialize(value, *rest, **options)
        if len(value) <= MAX_VALUES and sum(map(count_cost, patterns)) > MAX_GLOB_COST:
            raise ValidationError(
                f"must have at most {MAX_GLOB_COST} wildcards in all its values, "
                "not counting '?' before the first '*' of a value"
            )
        return patterns


def absent() -> None:
    """Return the `None` of an absent parameter; a plain `None` would be documented as default."""


def description(text: str) -> dict[str, str]:
    return {"description": text}


def filter_by(inner: fields.Field[Any], text: str) -> AnyOf:
    """Return a filter with that description, which may be absent or have several values."""
    return AnyOf(inner, load_default=tuple, metadata=description(text))


def check_order(values: Mapping[str, Any], start: str, end: str) -> None:
    """Check that the first of two moments, by their names, is not after the second.

    Raises:
        ValidationError: it is.
    """
    first, last = values.get(start), values.get(end)
    if first is not None and last is not None and first > last:
        raise ValidationError(f"must not be after {end}", start)


class PagedQuery(Query):
    """The parameters of every list with pages."""

    cursor = Text(
        low=1,
        high=CURSOR_MAX_LENGTH,
        load_default=absent,
        metadata=description("Opaque; take it from a Link header."),
    )
    per_page = Number(
        1,
        MAX_PER_PAGE,
        load_default=absent,
        metadata=description(f"The number of items per page; default {DEFAULT_PER_PAGE}."),
    )


def _event_types() -> Choice:
    return Choice(*sorted(EVENT_TYPES), named=f"the {len(EVENT_TYPES)} event types")


class EventFilters(Query):
    """The filters of the event log, for its pages and for what is counted of it."""

    pull_request = filter_by(Number(0, MAX_INTEGER), "Events of any of these pull requests.")
    base_ref = Text(
        low=1,
        high=MAX_REF_LENGTH,
        load_default=absent,
        metadata=description("Events of pull requests to this base ref."),
    )
    event_type = filter_by(_event_types(), "Events of any of these types.")
    trigger = filter_by(Text(high=MAX_TRIGGER_LENGTH), "Events with any of these triggers.")
    outcome = filter_by(Choice.of(Outcome), "Events with any of these outcomes.")
    not_event_type = filter_by(_event_types(), "Not of these types, even if also included.")
    not_trigger = filter_by(
        Text(high=MAX_TRIGGER_LENGTH), "Not with these triggers, even if also included."
    )
    not_outcome = filter_by(Choice.of(Outcome), "Not with these outcomes, even if also included.")
    not_pull_request = filter_by(
        Number(0, MAX_INTEGER), "Not of these pull requests, even if also included."
    )
    received_from = Timestamp(
        load_default=absent,
        metadata=description(
            "Start of the range, inclusive; default received_to minus"
            f" {DEFAULT_EVENT_RANGE.days} day."
        ),
    )
    received_to = Timestamp(
        load_default=absent,
        metadata=description("End of the range, exclusive; default now."),
    )

    def check(self, values: Mapping[str, Any]) -> None:
        check_order(values, "received_from", "received_to")


class EventsQuery(PagedQuery, EventFilters):
    """A page of the event log."""


# The parameters of the test search that take globs; all of them share one limit of cost.
_GLOBS: Final = ("test_name", "test_name_exclude", "test_filepath")


class TestsQuery(PagedQuery):
    """The filters and the order of the test search."""

    __test__ = False

    test_name = Patterns(
        Pattern(),
        required=True,
        metadata=description(
            "Tests whose whole name matches any of these: `*` matches any run of characters, `?` "
            f"exactly one, everything else itself. At most {MAX_STARS} `*` each, and at most "
            f"{MAX_GLOB_COST} wildcards in all, not counting `?` before the first `*`."
        ),
    )
    sort = Choice.of(
        TestSort,
        load_default=TestSort.EXECUTIONS_COUNT.value,
        metadata=description("The sort field; ties are sorted by name."),
    )
    direction = Choice(
        "asc", "desc", load_default="desc", metadata=description("The sort direction.")
    )
    pipeline_name = filter_by(Text(), "Only of these pipelines.")
    pipeline_name_exclude = filter_by(Text(), "Not of these pipelines, even if also included.")
    job_name = filter_by(Text(), "Only of these jobs.")
    job_name_exclude = filter_by(Text(), "Not of these jobs, even if also included.")
    # These have no defaults: without them, the filters of a request are those of earlier releases,
    # so that cursors of earlier releases stay valid.
    test_name_exclude = Patterns(
        Pattern(), metadata=description("Not tests whose name matches any of these globs.")
    )
    test_filepath = Patterns(
        Pattern(),
        metadata=description(
            "Tests whose file matches any of these globs; a test of no known file matches none."
        ),
    )
    quarantined = Flag(
        metadata=description(
            "Only tests that are quarantined on the default branch, or only others."
        )
    )
    owner = AnyOf(
        Text(low=1, high=MAX_OWNER_LENGTH),
        metadata=description(
            f"Tests with any of these owners, as groups by owner name them; `{NO_OWNER}` selects "
            f"those without an owner. A 422 if they have more than {MAX_FILES:,} files together."
        ),
    )
    health_status = AnyOf(
        Choice.of(HealthStatus),
        metadata=description(
            "Rows with any of these health statuses in their own pipeline and job."
        ),
    )
    health_status_exclude = AnyOf(
        Choice.of(HealthStatus),
        metadata=description("Not with these health statuses, even if also included."),
    )
    include = AnyOf(
        Choice(METRICS, TOTAL),
        metadata=description(
            "`metrics`: each row has those of its own pipeline and job. `total`: the number of rows"
            f" of all pages, if it is at most {MAX_TOTAL}; not in a stream."
        ),
    )

    def check(self, values: Mapping[str, Any]) -> None:
        given = [name for name in _GLOBS if values.get(name)]
        if sum(count_cost(pattern) for name in given for pattern in values[name]) > MAX_GLOB_COST:
            *others, last = given
            raise ValidationError(
                f"must have at most {MAX_GLOB_COST} wildcards together with {', '.join(others)}",
                last,
            )


class QuarantinesQuery(PagedQuery):
    """The filters of the quarantine list, which has pages only on request."""

    branch = Text(
        low=1,
        high=MAX_REF_LENGTH,
        load_default=absent,
        metadata=description("Quarantines that apply to this branch."),
    )
    test_id = Uuid(load_default=absent, metadata=description("Quarantines of this test."))
    source = Choice.of(
        QuarantineSource,
        load_default=absent,
        metadata=description("Quarantines with this source."),
    )
    include = AnyOf(
        Choice(DETAILS),
        metadata=description(
            "`details`: each row has the id of its test, owner, expiry, and the verdicts of the "
            "test on the default branch on the UTC days after `created_at`, within the 30 days "
            "that end with its newest execution. The list comes in pages then."
        ),
    )
