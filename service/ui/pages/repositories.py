"""The repositories that the credential can read, worst health first.

The code host does not list what a token can read, so other repositories are opened by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from indexing.models.listed_repositories import RepositorySort
from indexing.models.trends import Stat
from indexing.names import parse_repository
from service.auth.code_host.decisions import is_valid_in_path
from service.auth.principal import Principal
from service.http import problems
from service.routes import GET_STATS, LIST_REPOSITORIES
from service.ui.api import Api, ApiAnswer
from service.ui.charts import Proportion, Spark, draw_proportion, draw_spark
from service.ui.page_context import PageContext
from service.ui.principals import read_full_name
from service.ui.queries import first_of, only, page_links, read_pairs, write_pairs

_PER_PAGE: Final = "10"
_NAMED: Final = "repository"
# Of a wrong name that is shown again.
_MAX_SHOWN: Final = 300
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
    """GET /ui/; with the name of a repository, leads to its page."""
    pairs = read_pairs(page.request.rel_url.raw_query_string)
    is_token = principal.key is None
    named = first_of(pairs, _NAMED).strip() if is_token else ""
    repository = read_full_name(named)
    if repository is not None and is_valid_in_path(repository):
        return page.go_to(page.link(repository.owner, repository.name))
    kept = only(pairs, ("sort",)) or [("sort", RepositorySort.WORST.value)]
    asked = [*kept, *only(pairs, ("cursor",)), ("per_page", _PER_PAGE)]
    # The code host may hide the repository that was named with a token when its session began.
    is_hidden = not principal.owner
    answer, rows = ApiAnswer({}), []
    if not is_hidden:
        api = page.open_api(principal)
        answer = await api.get(LIST_REPOSITORIES, {"owner": principal.owner}, write_pairs(asked))
        found = answer.value["repositories"]
        rows = await asyncio.gather(*(_make_row(page, api, each) for each in found))
    return await page.show(
        "repositories.html",
        422 if named else 200,
        rows=rows,
        sort=first_of(kept, "sort"),
        links=page_links(answer.links, kept),
        is_later=bool(first_of(pairs, "cursor")),
        is_hidden=is_hidden,
        is_token=is_token,
        named=named[:_MAX_SHOWN],
    )


async def redirect(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}, the address of a repository without its last part."""
    if page.request.match_info["owner"].lower() != principal.owner.lower():
        raise problems.not_found("owner")
    return page.go_to(page.dashboard.base)


async def _make_row(page: PageContext, api: Api, found: Mapping[str, Any]) -> Row:
    name = parse_repository(found["repository"])
    query = write_pairs(page.find_range(_DAYS))
    path = {"owner": name.owner, "repository": name.name}
    broken, flaky = await asyncio.gather(
        *(api.get(GET_STATS, {**path, "stat": stat}, query) for stat in _SERIES)
    )
    return Row(
        found=found,
        owner=name.owner,
        name=name.name,
        total=sum(found["tests"].values()),
        proportion=draw_proportion(found["tests"]),
        broken=_draw("Broken", broken.value),
        flaky=_draw("Flaky", flaky.value),
    )


def _draw(name: str, series: Mapping[str, Any]) -> Spark | None:
    return draw_spark(name, [each["value"] for each in series["value_over_time"]])
