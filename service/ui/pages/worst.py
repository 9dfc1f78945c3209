"""The worst directories, jobs and owners of a repository, and its slowest tests.

Counting groups reads all tests of the repository, so the overview loads this part after the rest.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web

from indexing.errors import StoreUnavailableError
from indexing.models.groups import Grouping
from service.auth.principal import Principal
from service.routes import GROUP_TESTS, SEARCH_TESTS
from service.ui.api import Api
from service.ui.charts import draw_proportion
from service.ui.page_context import PageContext
from service.ui.queries import write_pairs

_SHOWN: Final = 5


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
    ill = (group for group in answer.value["groups"] if group["broken"] or group["flaky"])
    return [
        {**group, "proportion": draw_proportion(group)}
        for group, _ in zip(ill, range(_SHOWN), strict=False)
    ]


async def _find_slowest(page: PageContext, api: Api) -> list[dict[str, Any]]:
    asked = [
        ("test_name", "*"),
        ("sort", "mean_duration"),
        ("direction", "desc"),
        ("per_page", str(_SHOWN)),
        ("include", "metrics"),
    ]
    answer = await api.get(SEARCH_TESTS, page.repository_path, write_pairs(asked))
    return [row for row in answer.value["tests"] if row["metrics"]["mean_duration"]]
