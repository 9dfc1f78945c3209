"""The list of the repositories that the key can read, worst health first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from indexing.models.listed_repositories import RepositorySort
from indexing.models.trends import Stat
from indexing.names import parse_repository
from service.auth.principal import Principal
from service.routes import GET_STATS, LIST_REPOSITORIES
from service.ui.api import Api
from service.ui.charts import Proportion, Spark, draw_proportion, draw_spark
from service.ui.page_context import PageContext
from service.ui.queries import first_of, only, page_links, read_pairs, write_pairs

_PER_PAGE: Final = "10"
_DAYS: Final = 30
_SERIES: Final = (Stat.BROKEN_TESTS, Stat.FLAKY_TESTS)


@dataclass(frozen=True, slots=True)
class Row:
    """A repository as the API returns it, with its charts."""

    found: Mapping[str, Any]
    owner: str
    name: str
    total: int
    proportion: Proportion
    broken: Spark | None
    flaky: Spark | None


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/."""
    api = page.open_api(principal)
    pairs = read_pairs(page.request.rel_url.raw_query_string)
    kept = only(pairs, ("sort",)) or [("sort", RepositorySort.WORST.value)]
    asked = [*kept, *only(pairs, ("cursor",)), ("per_page", _PER_PAGE)]
    answer = await api.get(LIST_REPOSITORIES, {"owner": principal.owner}, write_pairs(asked))
    found = answer.value["repositories"]
    return await page.show(
        "repositories.html",
        rows=await asyncio.gather(*(_make_row(page, api, each) for each in found)),
        sort=first_of(kept, "sort"),
        links=page_links(answer.links, kept),
    )


async def _make_row(page: PageContext, api: Api, found: Mapping[str, Any]) -> Row:
    name = parse_repository(found["repository"])
    start = [("start", page.find_start(_DAYS))]
    path = {"owner": name.owner, "repository": name.name}
    broken, flaky = await asyncio.gather(
        *(api.get(GET_STATS, {**path, "stat": stat}, write_pairs(start)) for stat in _SERIES)
    )
    return Row(
        found,
        name.owner,
        name.name,
        sum(found["tests"].values()),
        draw_proportion(found["tests"]),
        _draw("Broken", broken.value),
        _draw("Flaky", flaky.value),
    )


def _draw(name: str, series: Mapping[str, Any]) -> Spark | None:
    return draw_spark(name, [each["value"] for each in series["value_over_time"]])
