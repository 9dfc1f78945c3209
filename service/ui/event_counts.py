"""Counts of the event log as a page shows them: a histogram and facets. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from indexing.errors import InvalidValueError
from indexing.models.events import MAX_TRIGGER_LENGTH
from indexing.timestamps import format_timestamp, parse_timestamp
from service.pagination.cursor import TimeRange
from service.schemas.limits import DEFAULT_EVENT_RANGE
from service.ui.event_view import FROM, TO, EventView
from service.ui.queries import values_of

# The size of the histogram, in the units of its image.
WIDTH: Final = 1_040
HEIGHT: Final = 72
_GAP: Final = 0.16
_LEAST_HEIGHT: Final = 2.0
_TICKS: Final = 5
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))

# Each facet: its field in the response, its filter, its title, and the number of values shown.
_FACETS: Final = (
    ("by_outcome", "outcome", "Outcome", 4),
    ("by_event_type", "event_type", "Type", 10),
    ("by_trigger", "trigger", "Trigger", 6),
    ("by_pull_request", "pull_request", "Pull request", 6),
)
# Further values of a facet that a page lists: with those shown at once, all types of events.
_MORE: Final = 31
_MAX_CHOSEN: Final = 20


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the histogram.

    `query` is the query string of the view of its time range. `slot` is the start and width of the
    area that reacts to the pointer.
    """

    x: float
    y: float
    width: float
    height: float
    slot: tuple[float, float]
    label: str
    query: str
    is_inside: bool


@dataclass(frozen=True, slots=True)
class Histogram:
    """The bars, oldest first; `brush` is the selected range as start and width."""

    bars: Sequence[Bar]
    most: int
    total: int
    size: str
    ticks: Sequence[str]
    brush: tuple[float, float] | None
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value with its count.

    `toggle` and `leave_out` are query strings of views that select or exclude the value; None if it
    cannot be a filter.
    """

    value: str
    count: int
    share: int
    is_chosen: bool
    is_left_out: bool
    toggle: str | None
    leave_out: str | None


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of one field, the most frequent first; `is_cut` if there are further ones."""

    field: str
    title: str
    shown: Sequence[FacetValue]
    more: Sequence[FacetValue]
    is_cut: bool


def draw_histogram(
    counts: Mapping[str, Any], view: EventView, asked: Mapping[str, str]
) -> Histogram:
    """Return the histogram of a response; `asked` has the counted range by parameter."""
    found = counts["histogram"]
    most = max((each["count"] for each in found), default=0)
    step = WIDTH / max(1, len(found))
    starts = [parse_timestamp(each["start"]) for each in found]
    ends = [parse_timestamp(each["end"]) for each in found]
    around = view.around or _around(asked, starts, ends)
    chosen = _chosen_part(view)
    style = _choose_style(starts, ends)
    bars = []
    for number, each in enumerate(found):
        height = 0.0
        if each["count"]:
            height = max(_LEAST_HEIGHT, each["count"] / most * HEIGHT)
        start, end = starts[number], ends[number]
        target = view.with_range(format_timestamp(start), format_timestamp(end), around)
        bars.append(
            Bar(
                x=round((number + _GAP / 2) * step, 1),
                y=round(HEIGHT - height, 1),
                width=round(step * (1 - _GAP), 1),
                height=round(height, 1),
                slot=(round(number * step, 1), round(step, 1)),
                label=f"{_format(start, style)} to {_format(end, style)}: {each['count']:,}",
                query=target.query(),
                is_inside=chosen is not None and chosen.start < end and start < chosen.end,
            )
        )
    inside = [number for number, bar in enumerate(bars) if bar.is_inside]
    brush = None
    if inside:
        brush = (round(inside[0] * step, 1), round((inside[-1] + 1 - inside[0]) * step, 1))
    return Histogram(
        bars,
        most,
        counts["total"],
        _name_size(counts["interval_size_seconds"]),
        _list_ticks(starts, ends),
        brush,
    )


def list_facets(counts: Mapping[str, Any], view: EventView) -> list[Facet]:
    """Return the facets of a response; filtered values are included even if their count is 0."""
    return [
        _make_facet(counts[member], field, title, shown, view)
        for member, field, title, shown in _FACETS
    ]


def _make_facet(
    found: Sequence[Mapping[str, Any]], field: str, title: str, shown: int, view: EventView
) -> Facet:
    counts = {str(each["value"]): int(each["count"]) for each in found}
    named = [*values_of(view.filters, field), *values_of(view.filters, f"not_{field}")]
    for value in named[:_MAX_CHOSEN]:
        counts.setdefault(value, 0)
    most = max(counts.values(), default=0)
    values = [_make_value(field, value, count, most, view) for value, count in counts.items()]
    # A value that is filtered by is never hidden.
    used = [each for each in values if each.is_chosen or each.is_left_out]
    others = [each for each in values if not (each.is_chosen or each.is_left_out)]
    at = max(0, shown - len(used))
    first = [each for each in values if each in used or each in others[:at]]
    return Facet(field, title, first, others[at : at + _MORE], len(others) > at + _MORE)


def _make_value(field: str, value: str, count: int, most: int, view: EventView) -> FacetValue:
    can_filter = 0 < len(value) <= MAX_TRIGGER_LENGTH
    return FacetValue(
        value=value,
        count=count,
        share=math.ceil(count / most * 100) if most else 0,
        is_chosen=view.has(field, value),
        is_left_out=view.has(f"not_{field}", value),
        toggle=view.offer(field, value) if can_filter else None,
        leave_out=view.offer(f"not_{field}", value) if can_filter else None,
    )


def _around(
    asked: Mapping[str, str], starts: Sequence[datetime], ends: Sequence[datetime]
) -> tuple[str, str] | None:
    """Return the counted range, which the histogram keeps when a part of it is selected."""
    if not starts:
        return None
    return (
        asked.get(FROM) or format_timestamp(starts[0]),
        asked.get(TO) or format_timestamp(ends[-1]),
    )


def _chosen_part(view: EventView) -> TimeRange | None:
    """Return the range of the view, if it is a part of the counted range."""
    if view.around is None:
        return None
    try:
        end = parse_timestamp(view.received_to or view.around[1])
        start = parse_timestamp(view.received_from) if view.received_from else None
    except InvalidValueError:
        # The API has refused the range of the view, but counted the range around it.
        return None
    return TimeRange.fill_in(start, end, end, DEFAULT_EVENT_RANGE)


def _list_ticks(starts: Sequence[datetime], ends: Sequence[datetime]) -> list[str]:
    """Return evenly spaced labels of the axis; a label has a date if it differs from the last."""
    if not starts:
        return []
    first, span = starts[0], ends[-1] - starts[0]
    moments = [first + span * number / (_TICKS - 1) for number in range(_TICKS)]
    style = _choose_style(starts, ends)
    texts = [_format(first, style)]
    for before, moment in pairwise(moments):
        is_new = before.date() != moment.date()
        texts.append(_format(moment, style) if is_new else f"{moment:{style.rpartition(' ')[2]}}")
    return texts


def _choose_style(starts: Sequence[datetime], ends: Sequence[datetime]) -> str:
    """Return how times are written, the time of day last.

    With the year if the range is not within one, and as exactly as the bars are long.
    """
    is_within_one = not starts or starts[0].year == ends[-1].year
    size = ends[0] - starts[0] if starts else _MINUTE
    exactly = "" if size >= _MINUTE else ":%S" if size >= _SECOND else ":%S.%f"
    return f"{'%b' if is_within_one else '%b %Y'}, %H:%M{exactly}"


def _format(moment: datetime, style: str) -> str:
    return f"{moment.day} {moment:{style}}"


def _name_size(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            number = int(seconds // size)
            return unit if number == 1 else f"{number} {unit}s"
    return f"{seconds:g} seconds"
