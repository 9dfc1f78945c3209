"""The worst directories, jobs and owners of a repository, and its slowest tests.

Counting groups reads all tests of the repository, so the overview loads this part after the rest.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any, Final
from urllib.parse import quote_plus

from aiohttp import web

from indexing.errors import StoreUnavailableError
from indexing.globs import is_literal
from indexing.groups import TOP_DIRECTORY
from indexing.models.groups import Grouping
from indexing.owners.selecting import NO_OWNER
from service.auth.principal import Principal
from service.routes import GROUP_TESTS, SEARCH_TESTS
from service.ui.api import Api
from service.ui.charts import draw_proportion
from service.ui.page_context import PageContext
from service.ui.queries import write_pairs

_SHOWN: Final = 5
# The maximum length of a name in a link, percent-encoded: a target has at most 8,000 bytes, and the
# page that it leads to repeats the name in longer targets.
_MAX_LINKED: Final = 2_000


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/worst."""
    api = page.open_api(principal)
    directories, jobs, owners, slowest = await asyncio.gather(
        _find_worst(page, api, Grouping.DIRECTORY),
        _find_worst(page, api, Grouping.JOB),
        _find_worst(page, api, Grouping.OWNER),
        _find_slowest(page, api),
    )
    return await page.show(
        "worst_part.html" if page.is_fragment else "worst.html",
        tab="overview",
        directories=directories,
        jobs=jobs,
        # Without a CODEOWNERS file, all tests are in one group without an owner.
        has_owners=owners is None or any(group["value"] is not None for group in owners),
        owners=owners,
        slowest=slowest,
    )


async def _find_worst(page: PageContext, api: Api, by: Grouping) -> list[dict[str, Any]] | None:
    """Return the first groups with a broken or flaky test; None if counting takes too long."""
    try:
        answer = await api.get(GROUP_TESTS, page.repository_path, write_pairs([("by", by.value)]))
    except StoreUnavailableError:
        return None
    unhealthy = (group for group in answer.value["groups"] if group["broken"] or group["flaky"])
    shown = list(islice(unhealthy, _SHOWN))
    queries = await asyncio.gather(*(_find_query(page, api, by, each["value"]) for each in shown))
    return [
        {**group, "proportion": draw_proportion(group), "query": query}
        for group, query in zip(shown, queries, strict=True)
    ]


async def _find_query(page: PageContext, api: Api, by: Grouping, value: str | None) -> str | None:
    """Return the query string that filters the tests by a group; None if no filter can do so.

    That of a directory includes the directories below it.
    """
    if by is Grouping.OWNER:
        return write_pairs([("owner", NO_OWNER if value is None else value)])
    if value is None or len(quote_plus(value)) > _MAX_LINKED:
        return None
    if by is Grouping.JOB:
        return write_pairs([("job_name", value)])
    if by is not Grouping.DIRECTORY or value == TOP_DIRECTORY or not is_literal(value):
        return None
    separator = "\\" if "\\" in value else "/"
    pattern = f"{value.rstrip(separator)}{separator}*"
    # A directory is that of the file or, for tests without a file, the start of the name.
    of_file = [("test_name", "*"), ("test_filepath", pattern), ("per_page", "1")]
    try:
        answer = await api.get(SEARCH_TESTS, page.repository_path, write_pairs(of_file))
    except StoreUnavailableError:
        return None
    return write_pairs([("test_filepath" if answer.value["tests"] else "test_name", pattern)])


async def _find_slowest(page: PageContext, api: Api) -> list[dict[str, Any]] | None:
    """Return the slowest tests; None if the search takes too long."""
    asked = [
        ("test_name", "*"),
        ("sort", "mean_duration"),
        ("direction", "desc"),
        ("per_page", str(_SHOWN)),
        ("include", "metrics"),
    ]
    try:
        answer = await api.get(SEARCH_TESTS, page.repository_path, write_pairs(asked))
    except StoreUnavailableError:
        return None
    return [row for row in answer.value["tests"] if row["metrics"]["mean_duration"]]
