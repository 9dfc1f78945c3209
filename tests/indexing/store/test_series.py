"""What series cost: they are computed on the event loop."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import cast

from indexing.health.window import day_of
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    Quarantine,
    QuarantineChange,
    QuarantineChangeKey,
    QuarantineKey,
    QuarantineQuery,
    QuarantineSource,
)
from indexing.models.trends import DayQuery, HealthCounts, Stat
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from indexing.store.series import read_series
from tests.builders import NOON, WIDGETS, after

QUARANTINES, DAYS = 1_000, 400


class Name(str):
    """A name that counts how often any of them is looked at."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Name.looks += 1
        return super().__hash__()


class Quarantined:
    """The part of a reader that counts quarantines: many are in force, and none has changed."""

    async def find_final_day(self) -> int:
        return 0

    async def count_health(self, query: DayQuery) -> HealthCounts:
        raise AssertionError(f"{query} is of no use for this series")

    async def list_quarantines(
        self, query: QuarantineQuery, anchor: Anchor[QuarantineKey], limit: int | None
    ) -> Page[Quarantine]:
        assert (query.repository, anchor, limit) == (WIDGETS, Anchor(), None)
        rows = tuple(
            Quarantine(
                key=QuarantineKey(after(days=-500), uuid.uuid4()),
                test_name=Name(f"test {number // 2}"),
                reason="flaps",
                branch=None,
                source=QuarantineSource.MANUAL,
            )
            for number in range(QUARANTINES)
        )
        return Page(rows, has_previous=False, has_next=False)

    async def list_quarantine_changes(
        self,
        repository: RepositoryName,
        now: datetime,
        anchor: Anchor[QuarantineChangeKey],
        limit: int,
    ) -> Page[QuarantineChange]:
        assert (repository, now, anchor) == (WIDGETS, NOON, Anchor())
        assert limit
        return Page((), has_previous=False, has_next=False)


async def test_days_without_changes_do_not_count_all_quarantines_again() -> None:
    last = day_of(NOON)
    query = DayQuery(WIDGETS, last - DAYS + 1, last)
    Name.looks = 0
    reader = cast("Reader", Quarantined())
    stat = Stat.QUARANTINED_TESTS
    found = await read_series(reader, reader.count_health, stat, query, NOON)
    assert [bar.value for bar in found.value_over_time] == [QUARANTINES // 2] * DAYS
    assert Name.looks < 5 * QUARANTINES
