"""Finds the quarantines of recovered tests, for which the API has no filter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from service.routes import LIST_QUARANTINES
from service.ui.api import Api
from service.ui.queries import Pairs, write_pairs


async def find_recovered(
    api: Api,
    path: Mapping[str, str],
    filters: Pairs,
    limit: int,
    left_out: Collection[str] = (),
) -> tuple[list[dict[str, Any]], int]:
    """Return the first quarantines of recovered tests, at most `limit`, and how many there are.

    Those with an id in `left_out` do not count.
    """
    # Without a page size, the list is whole: any of its tests may have recovered.
    asked = write_pairs(filters)
    first: list[dict[str, Any]] = []
    count = 0
    async with api.get_rows(LIST_QUARANTINES, path, asked, "quarantined_tests") as answer:
        async for row in answer.rows:
            if row["is_recovered"] and row["id"] not in left_out:
                count += 1
                if len(first) < limit:
                    first.append(row)
    return first, count
