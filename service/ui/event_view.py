"""One view of the event log as its URL names it: filters, range, and the range around it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from indexing.timestamps import format_timestamp
from service.schemas.queries import EventFilters
from service.ui.queries import Pairs, first_of, only, read_short, values_of, write_pairs

FROM: Final = "received_from"
TO: Final = "received_to"
# The range that the histogram covers where a part of it was chosen.
_AROUND: Final = ("around_from", "around_to")
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
FILTERS: Final = tuple(each for each in EventFilters().load_fields if each not in (FROM, TO))
_WRITTEN: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?)?")


@dataclass(frozen=True, slots=True)
class EventView:
    """A view; moments are as the person or a link wrote them, in the spelling of the API.

    `last` is a key of `LASTS`, and empty where the range was given. `around` is the range of the
    histogram if it differs.
    """

    filters: Pairs
    last: str
    received_from: str
    received_to: str
    around: tuple[str, str] | None
    cursor: str
    opened: str

    @classmethod
    def read(cls, raw_query: str) -> EventView:
        """The view of a query string.

        Raises:
            Problem: as `read_short` does.
        """
        pairs = read_short(raw_query)
        start, end = read_moment(first_of(pairs, FROM)), read_moment(first_of(pairs, TO))
        last = first_of(pairs, _LAST)
        around = (first_of(pairs, _AROUND[0]), first_of(pairs, _AROUND[1]))
        return cls(
            # Once each: repeats ask for the same.
            list(dict.fromkeys(only(pairs, FILTERS))),
            "" if start or end else last if last in LASTS else DEFAULT_LAST,
            start,
            end,
            around if (start or end) and all(around) else None,
            first_of(pairs, _CURSOR),
            first_of(pairs, OPEN),
        )

    @property
    def is_live(self) -> bool:
        """Whether what arrives now belongs to it."""
        return not self.received_to and not self.cursor

    def ask(self, now: datetime) -> Pairs:
        """The filters and the range for the API."""
        return [*self.filters, *self._range(now)]

    def ask_around(self, now: datetime) -> Pairs:
        """The same with the range of the histogram."""
        if self.around is None:
            return self.ask(now)
        return [*self.filters, (FROM, self.around[0]), (TO, self.around[1])]

    def query(self) -> str:
        """The query string of its first page."""
        bounds = [(_LAST, self.last)] if self.last and self.last != DEFAULT_LAST else []
        bounds += [(name, text) for name, text in self._bounds() if text]
        around = [] if self.around is None else list(zip(_AROUND, self.around, strict=True))
        return write_pairs([*self.filters, *bounds, *around])

    def walk(self, asked: Pairs) -> Pairs:
        """The parameters that its pages share. A walk keeps the range that it began with."""
        around = [] if self.around is None else list(zip(_AROUND, self.around, strict=True))
        return [*asked, *around]

    def with_range(self, start: str, end: str, around: tuple[str, str] | None = None) -> EventView:
        """The view of another range."""
        return replace(
            self, last="", received_from=start, received_to=end, around=around, cursor=""
        )

    def with_last(self, last: str) -> EventView:
        """The view of the time up to now."""
        return replace(self, last=last, received_from="", received_to="", around=None, cursor="")

    def only_pull(self, number: int) -> EventView:
        """All that happened to a pull request, as far back as the page looks without a range."""
        return replace(
            self.with_last(next(reversed(LASTS))), filters=[("pull_request", str(number))]
        )

    def toggle(self, field: str, value: str) -> EventView:
        """With this filter, or without it if it is there; the opposite filter goes."""
        opposite = field.removeprefix("not_") if field.startswith("not_") else f"not_{field}"
        kept = [each for each in self.filters if each not in ((field, value), (opposite, value))]
        if not self.has(field, value):
            kept.append((field, value))
        return replace(self, filters=kept, cursor="")

    def has(self, field: str, value: str) -> bool:
        """Whether it has this filter."""
        return value in values_of(self.filters, field)

    def _bounds(self) -> Pairs:
        return [(FROM, self.received_from), (TO, self.received_to)]

    def _range(self, now: datetime) -> Pairs:
        if not self.last:
            return [(name, text) for name, text in self._bounds() if text]
        # To the minute, so that people who look at once ask for the same.
        start = (now - LASTS[self.last][1]).replace(second=0, microsecond=0)
        return [(FROM, format_timestamp(start))]


def read_moment(text: str) -> str:
    """What a person wrote as the API spells it, in UTC; what it is not is left to the API."""
    text = text.strip()
    if text == "now":
        return ""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return text
    return f"{found[1]}T{found[2] or '00:00'}{found[3] or ':00'}Z"


def show_moment(text: str) -> str:
    """A moment as people write it, to the second where it has some."""
    shown = text.removesuffix("Z").replace("T", " ")
    shown = re.sub(r"\.0+$", "", shown) if text.endswith("Z") else text
    return shown.removesuffix(":00") if shown.count(":") == 2 else shown
