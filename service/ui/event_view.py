"""A view of the event log, read from and written to a URL: filters and time ranges. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from indexing.errors import InvalidValueError
from indexing.timestamps import format_timestamp, parse_timestamp
from service.http.field_errors import FieldError
from service.http.problems import Problem
from service.schemas.queries import EventFilters
from service.ui.queries import (
    MAX_QUERY_LENGTH,
    Pairs,
    first_of,
    only,
    read_short,
    values_of,
    write_pairs,
)

FROM: Final = "received_from"
TO: Final = "received_to"
# The range that the histogram covers if a part of it is selected.
_AROUND: Final = ("around_from", "around_to")
# The key of `LASTS` that this range was, if it was one: unlike that range, it ends now.
_AROUND_LAST: Final = "around_last"
_LAST: Final = "last"
_CURSOR: Final = "cursor"
OPEN: Final = "event"

LASTS: Final = {
    "1d": ("24 hours", timedelta(days=1)),
    "7d": ("7 days", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
    "90d": ("90 days", timedelta(days=90)),
}
DEFAULT_LAST: Final = "7d"
# The fields that the filter form shows.
FORM_FIELDS: Final = ("pull_request", "base_ref", FROM, TO)
# The most characters of filters in a query string; any one trigger of an event fits. The rest is
# for what links of the page add, such as a range and a cursor.
MAX_FILTERS_LENGTH: Final = MAX_QUERY_LENGTH - 500
FILTERS: Final = tuple(each for each in EventFilters().load_fields if each not in (FROM, TO))
_WRITTEN: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d(?:\.\d{1,9})?)?)?")


@dataclass(frozen=True, slots=True)
class EventView:
    """A view of the event log; its times come from user input, converted to the format of the API.

    `last` is a key of `LASTS`, or empty if a range is set. `around` is the range of the histogram
    if it differs from the range of the view, and `around_last` the key of `LASTS` that it was, or
    empty.
    """

    filters: Pairs
    last: str
    received_from: str
    received_to: str
    around: tuple[str, str] | None
    around_last: str
    cursor: str
    opened: str

    @classmethod
    def read(cls, raw_query: str) -> EventView:
        """Read the view from a query string.

        Raises:
            Problem: the query string is too long, as in `read_short`, or its filters are.
        """
        pairs = read_short(raw_query)
        # Without duplicates, which would filter no more.
        filters = list(dict.fromkeys(map(_normalize, only(pairs, FILTERS))))
        if len(write_pairs(filters)) > MAX_FILTERS_LENGTH:
            raise Problem(414, f"the filters take at most {MAX_FILTERS_LENGTH} characters")
        start, end = (normalize_moment(first_of(pairs, name)) for name in (FROM, TO))
        last = first_of(pairs, _LAST)
        around = (first_of(pairs, _AROUND[0]), first_of(pairs, _AROUND[1]))
        is_part = bool(start or end) and all(around)
        around_last = first_of(pairs, _AROUND_LAST)
        return cls(
            filters=filters,
            last="" if start or end else last if last in LASTS else DEFAULT_LAST,
            received_from=start,
            received_to=end,
            around=around if is_part else None,
            around_last=around_last if is_part and around_last in LASTS else "",
            cursor=first_of(pairs, _CURSOR),
            opened=first_of(pairs, OPEN),
        )

    @property
    def is_live(self) -> bool:
        """Whether events that arrive now belong to the view."""
        return not self.received_to and not self.cursor

    def ask(self, now: datetime) -> Pairs:
        """Return the filters and the range as parameters of the API."""
        return [*self.filters, *self._range(now)]

    def ask_around(self, now: datetime) -> Pairs:
        """Return the same as `ask`, but with the range of the histogram."""
        if self.around is None:
            return self.ask(now)
        return [*self.filters, (FROM, self.around[0]), (TO, self.around[1])]

    def query(self) -> str:
        """Return the query string of the first page of the view."""
        bounds = [(_LAST, self.last)] if self.last and self.last != DEFAULT_LAST else []
        bounds += [(name, text) for name, text in self._bounds() if text]
        return write_pairs([*self.filters, *bounds, *self._around()])

    def walk(self, asked: Pairs) -> Pairs:
        """Return the parameters that all pages share, which keep the range of the first page."""
        return [*asked, *self._around()]

    def with_range(self, start: str, end: str, around: tuple[str, str] | None = None) -> EventView:
        """Return the view with another range, which is a part of `around` if that is set."""
        return replace(
            self,
            last="",
            received_from=start,
            received_to=end,
            around=around,
            around_last=(self.last or self.around_last) if around else "",
            cursor="",
        )

    def with_whole_range(self) -> EventView:
        """Return the view of the range that the histogram covers."""
        if self.around is None:
            return self
        if self.around_last:
            return self.with_last(self.around_last)
        return self.with_range(*self.around)

    def with_last(self, last: str) -> EventView:
        """Return the view with the range `last`, which ends now."""
        return replace(
            self,
            last=last,
            received_from="",
            received_to="",
            around=None,
            around_last="",
            cursor="",
        )

    def only_pull(self, number: int) -> EventView:
        """Return the view of all events of a pull request, over the longest range in `LASTS`."""
        return replace(
            self.with_last(next(reversed(LASTS))), filters=[("pull_request", str(number))]
        )

    def toggle(self, field: str, value: str) -> EventView:
        """Return the view with this filter added, or removed if it is set.

        The opposite filter is removed.
        """
        opposite = field.removeprefix("not_") if field.startswith("not_") else f"not_{field}"
        kept = [each for each in self.filters if each not in ((field, value), (opposite, value))]
        if not self.has(field, value):
            kept.append((field, value))
        return replace(self, filters=kept, cursor="")

    def offer(self, field: str, value: str) -> str | None:
        """Return the query string of `toggle`; None if its filters would be too long."""
        view = self.toggle(field, value)
        return view.query() if len(write_pairs(view.filters)) <= MAX_FILTERS_LENGTH else None

    def has(self, field: str, value: str) -> bool:
        """Whether the view has this filter."""
        return value in values_of(self.filters, field)

    def _around(self) -> Pairs:
        if self.around is None:
            return []
        last = [(_AROUND_LAST, self.around_last)] if self.around_last else []
        return [*zip(_AROUND, self.around, strict=True), *last]

    def _bounds(self) -> Pairs:
        return [(FROM, self.received_from), (TO, self.received_to)]

    def _range(self, now: datetime) -> Pairs:
        if not self.last:
            return [(name, text) for name, text in self._bounds() if text]
        # Rounded to the minute, so that simultaneous users share a cached response.
        start = (now - LASTS[self.last][1]).replace(second=0, microsecond=0)
        return [(FROM, format_timestamp(start))]


def _normalize(pair: tuple[str, str]) -> tuple[str, str]:
    """Return a filter as the API reads it: numbers of pull requests without # or leading zeros."""
    name, text = pair
    if name.endswith("pull_request"):
        number = _read_number(text)
        return pair if number is None else (name, number)
    return pair


def _read_number(text: str) -> str | None:
    """Return the number of a pull request that a user wrote, such as 17 or #17; None if it is none.

    Pages show the numbers with a #, and people copy them from there.
    """
    digits = text.strip().removeprefix("#")
    return str(int(digits)) if digits.isascii() and digits.isdigit() else None


def normalize_moment(text: str) -> str:
    """Convert a time that a user wrote to the format of the API, in UTC; `now` becomes no bound.

    Any other text is returned as it is, for the API to refuse.
    """
    text = text.strip()
    if text == "now":
        return ""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return text
    return f"{found[1]}T{found[2] or '00:00'}{found[3] or ':00'}Z"


def explain_error(error: FieldError, written: str) -> str:
    """Return what is wrong with a field of the filter form, where a user wrote this."""
    if error.field == "pull_request" and _read_number(written) is None:
        return "must be the number of a pull request, such as 17"
    if error.field in (FROM, TO):
        try:
            parse_timestamp(normalize_moment(written))
        except InvalidValueError:
            return "must be a date or a time in UTC, such as 2026-09-01 or 2026-09-01 14:30"
    # The page has no field of that name.
    return error.detail.replace(TO, "the end of the range")


def show_moment(text: str) -> str:
    """Format a time for people; seconds are shown unless they are zero."""
    shown = text.removesuffix("Z").replace("T", " ")
    shown = re.sub(r"\.0+$", "", shown) if text.endswith("Z") else text
    return shown.removesuffix(":00") if shown.count(":") == 2 else shown
