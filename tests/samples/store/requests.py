"""The requests whose responses are recorded, sent to the real service over a store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
from yarl import URL

from indexing.store import open_store
from service.app import create_app
from service.config.settings import Settings
from service.server.listener import http_url
from service.server.process import bind, start

# The time of the requests, by the clock of the service.
ASKED_AT: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)

_RANGE: Final = "received_from=2000-01-01T00:00:00Z&per_page=50"
_LOG: Final = f"/v1/repos/ACME/widgets/logs?{_RANGE}"
_CI: Final = "/v1/ci/acme/repositories/widgets"
_LISTS: Final = (
    _LOG,
    f"{_LOG}&event_type=action.merge",
    f"{_LOG}&pull_request=400&pull_request=401",
    f"{_LOG}&base_ref=main",
    f"{_CI}/search/tests?test_name=*&per_page=7",
    f"{_CI}/search/tests?test_name=*&sort=test_name&direction=asc",
    f"{_CI}/search/tests?test_name=hinge.*s&sort=job_name",
    f"{_CI}/search/tests?test_name=*swin*",
    f"{_CI}/search/tests?test_name=*?&sort=pipeline_name",
    f"{_CI}/quarantines?per_page=2",
    "/v1/ci/acme/repositories/empty/quarantines",
    "/v1/ci/acme/repositories/absent/quarantines",
)

Answer = tuple[int, Any]


async def ask_all(folder: Path, keys: Mapping[str, str]) -> dict[str, Answer]:
    """The status and body of each request, by its path; lists with all their pages."""
    store = await open_store(folder)
    app = create_app(Settings(data_dir=folder), store, clock=lambda: ASKED_AT)
    with bind("127.0.0.1", 0) as listener:
        runner = await start(app, listener)
        try:
            async with aiohttp.ClientSession(http_url(listener)) as client:
                return await _ask(client, keys)
        finally:
            await runner.cleanup()


async def _ask(client: aiohttp.ClientSession, keys: Mapping[str, str]) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    for path in _LISTS:
        found[path] = await _walk(client, path, keys["read"])
    named = {row["test_name"]: row["test_id"] for row in _rows(found[_LISTS[5]])}
    # The results that all failed at once are alike: one of them is enough.
    alike = [name for name in named if "down" in name]
    for test in [named[name] for name in sorted(named) if name not in alike[1:]]:
        path = f"{_CI}/tests/{test}"
        found[path] = await _get(client, path, keys["read"])
    for quarantine in _rows(found[_LISTS[9]]):
        path = f"{_CI}/quarantines/{quarantine['id']}"
        found[path] = await _get(client, path, keys["read"])
    for name, key in keys.items():
        found[f"{name}: {_LISTS[10]}"] = await _get(client, _LISTS[10], key)
        found[f"{name}: {_LISTS[4]}"] = await _get(client, _LISTS[4], key)
    return found


def _rows(answer: Answer) -> list[dict[str, Any]]:
    return [
        row
        for page in answer[1]
        for rows in page.values()
        if isinstance(rows, list)
        for row in rows
    ]


async def _walk(client: aiohttp.ClientSession, path: str, key: str) -> Answer:
    pages = []
    target: str | None = path
    status = 0
    while target is not None:
        async with client.get(URL(target, encoded=True), headers=_credential(key)) as answer:
            status = answer.status
            pages.append(await answer.json(content_type=None))
            following = answer.links.get("next")
            target = None if following is None else URL(following["url"]).raw_path_qs
    return status, pages


async def _get(client: aiohttp.ClientSession, path: str, key: str) -> Answer:
    async with client.get(URL(path, encoded=True), headers=_credential(key)) as answer:
        return answer.status, await answer.json(content_type=None)


def _credential(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
