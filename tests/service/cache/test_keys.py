"""Cache keys follow from the fields of a query: no filter can be forgotten."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, cast

import pytest

from indexing.models.events import EventQuery, Outcome
from indexing.models.file_selections import FileSelection
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import QuarantineKey, QuarantineQuery, QuarantineSource
from indexing.models.tests import HealthStatus, IdentityKey, TestQuery, TestSort
from indexing.store.interface import Reader
from service.cache.answers import filters_of
from service.cache.keys import Kind
from service.cache.memory import MemoryBackend
from service.cache.reader import CachedReaders
from service.http.operations import Operation
from service.pagination.sort_keys import IdentityPlace
from tests.builders import FOREIGN, NOON, WIDGETS, after

SEARCH: Final = TestQuery(WIDGETS, ("*",))
LIST: Final = QuarantineQuery(WIDGETS, NOON)
LOG: Final = EventQuery(WIDGETS, NOON, after(days=1))

# Another value of each field. A new field needs a line here.
OTHER_SEARCH: Final[Mapping[str, object]] = {
    "repository": FOREIGN,
    "patterns": ("a*",),
    "sort": TestSort.TEST_NAME,
    "descending": False,
    "pipelines": ("ci",),
    "pipelines_excluded": ("ci",),
    "jobs": ("ci",),
    "jobs_excluded": ("ci",),
    "patterns_excluded": ("ci",),
    "filepaths": ("ci",),
    "health": (HealthStatus.FLAKY,),
    "quarantined": False,
    "owners": ("@web",),
    "files": FileSelection(("ci",)),
    "with_metrics": True,
}
OTHER_LIST: Final[Mapping[str, object]] = {
    "repository": FOREIGN,
    "branch": "main",
    "test_id": uuid.UUID(int=5),
    "source": QuarantineSource.AUTO,
}
OTHER_LOG: Final[Mapping[str, object]] = {
    "repository": FOREIGN,
    "pull_requests": (1,),
    "base_ref": "main",
    "event_types": ("action.merge",),
    "triggers": ("rule",),
    "outcomes": (Outcome.FAILURE,),
    "event_types_excluded": ("action.merge",),
    "triggers_excluded": ("rule",),
    "outcomes_excluded": (Outcome.FAILURE,),
    "pull_requests_excluded": (1,),
}
# The answer says itself from when to when it is valid.
OF_TIME: Final = {"now"}
# The bounds that the request gives take the place of the range that follows from them.
OF_RANGE: Final = {"received_from", "received_to"}

PLACE: Final = IdentityKey(7, "a", "b", "c")
ROW: Final = QuarantineKey(NOON, uuid.UUID(int=1))


class CountingReader:
    """A store without rows, which counts how often it is read."""

    reads = 0

    async def search_tests(self, *_: object) -> Page[Any]:
        self.reads += 1
        return Page((), has_previous=False, has_next=False)

    list_quarantines = search_tests
    list_events = search_tests

    async def find_next_expiry(self, *_: object) -> None:
        return None

    async def count_verdicts(self, *_: object) -> dict[Any, Any]:
        return {}


def other(queries: Mapping[str, object], query: Any) -> list[Any]:
    return [query, *(replace(query, **{name: value}) for name, value in queries.items())]


@pytest.mark.parametrize(
    ("query", "others", "but"),
    [
        (TestQuery, OTHER_SEARCH, OF_TIME),
        (QuarantineQuery, OTHER_LIST, OF_TIME),
        (EventQuery, OTHER_LOG, OF_RANGE),
    ],
)
def test_every_field_of_a_query_has_another_value_here(
    query: type, others: Mapping[str, object], but: set[str]
) -> None:
    assert {*others} | but == {field.name for field in fields(query)}


async def test_searches_that_differ_in_one_field_or_place_share_no_page() -> None:
    counting, readers = open_readers()
    anchors: list[Anchor[IdentityPlace]] = [Anchor(), Anchor(PLACE), Anchor(PLACE, backward=True)]
    asked: list[Any] = [(query, Anchor(), 10) for query in other(OTHER_SEARCH, SEARCH)]
    asked += [(SEARCH, anchor, limit) for anchor in anchors for limit in (10, 11)]

    async def ask(query: TestQuery, anchor: Anchor[IdentityPlace], limit: int) -> None:
        reader = await readers.open(Operation.SEARCH, None, query.repository)
        await reader.search_tests(query, anchor, limit)

    await assert_each_is_read_once(counting, asked, ask)


async def test_lists_of_quarantines_that_differ_in_one_field_or_place_share_no_page() -> None:
    counting, readers = open_readers()
    anchors: list[Anchor[QuarantineKey]] = [Anchor(), Anchor(ROW), Anchor(ROW, backward=True)]
    asked: list[Any] = [(query, Anchor(), 10) for query in other(OTHER_LIST, LIST)]
    asked += [(LIST, anchor, limit) for anchor in anchors for limit in (10, None)]

    async def ask(query: QuarantineQuery, anchor: Anchor[QuarantineKey], limit: int | None) -> None:
        reader = await readers.open(Operation.QUARANTINES, None, query.repository)
        await reader.list_quarantines(query, anchor, limit)

    await assert_each_is_read_once(counting, asked, ask)
    # A later moment asks for the same page, but not with details, nor as plugins read it.
    await ask(replace(LIST, now=after(seconds=1)), Anchor(), 10)
    assert counting.reads == len({*map(repr, asked)})
    reader = await readers.open(Operation.QUARANTINES, None, WIDGETS)
    for more, kind in enumerate((Kind.QUARANTINE_DETAILS, Kind.TEST_STATES), start=1):
        await reader.list_quarantines(LIST, Anchor(), 10, kind)
        assert counting.reads == len({*map(repr, asked)}) + more


async def test_first_pages_of_the_log_that_differ_in_one_field_or_bound_are_kept_apart() -> None:
    counting, readers = open_readers()
    bounds = [(start, end) for start in (None, NOON) for end in (None, after(days=1))]
    asked: list[Any] = [(query, (None, None), 10) for query in other(OTHER_LOG, LOG)]
    asked += [(LOG, bound, limit) for bound in bounds for limit in (10, 11)]

    async def ask(query: EventQuery, bounds: Any, limit: int) -> None:
        reader = await readers.open(Operation.EVENTS, None, query.repository)
        await reader.list_events(query, bounds, Anchor(), limit, NOON)

    await assert_each_is_read_once(counting, asked, ask)


def test_a_field_that_is_added_is_part_of_the_key() -> None:
    @dataclass(frozen=True, slots=True)
    class WiderQuery(TestQuery):
        colours: tuple[str, ...] = ()

    read = filters_of(WiderQuery)
    assert read(WiderQuery(WIDGETS, ("*",))) != read(WiderQuery(WIDGETS, ("*",), colours=("red",)))


def test_a_query_of_one_filter_has_a_key() -> None:
    @dataclass(frozen=True, slots=True)
    class NarrowQuery:
        repository: str
        branch: str

    assert filters_of(NarrowQuery)(NarrowQuery("acme/widgets", "main")) == ("main",)


def open_readers() -> tuple[CountingReader, CachedReaders]:
    counting = CountingReader()
    return counting, CachedReaders(cast("Reader", counting), MemoryBackend(lambda: None))


async def assert_each_is_read_once(
    counting: CountingReader, asked: list[Any], ask: Callable[..., Any]
) -> None:
    for _ in range(2):
        for about in asked:
            await ask(*about)
    assert counting.reads == len({*map(repr, asked)})
