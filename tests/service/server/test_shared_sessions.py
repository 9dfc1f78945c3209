"""Several workers over Elasticsearch, without Redis: each knows the sessions of all."""

from __future__ import annotations

import asyncio
import re

import aiohttp
import pytest

from indexing.store import ElasticsearchPlace
from tests.service.processes import TIMEOUT, Start, port_of
from tests.source_host import open_host

pytestmark = pytest.mark.slow


async def test_any_worker_knows_the_session_of_a_token(
    start: Start, elasticsearch_place: ElasticsearchPlace
) -> None:
    async with open_host() as host, aiohttp.ClientSession() as client:
        host.add("acme/widgets", "ghp_of_mona")
        service = start(
            MERGEWATCH_WORKERS="3",
            MERGEWATCH_HOST_API_URL=host.base,
            MERGEWATCH_ELASTICSEARCH_URL=",".join(elasticsearch_place.urls),
            MERGEWATCH_ELASTICSEARCH_PREFIX=elasticsearch_place.prefix,
        )
        lines = [await asyncio.to_thread(service.next_line, "listening") for _ in range(3)]
        base = f"http://127.0.0.1:{port_of(lines[0])}"
        cookies: dict[str, str] = {}

        async def ask(method: str, path: str, **sent: str) -> tuple[int, str]:
            # Each request has a connection of its own, which any worker may accept.
            headers = {
                "Connection": "close",
                "Origin": base,
                "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
            }
            async with client.request(
                method, base + path, headers=headers, data=sent or None, allow_redirects=False
            ) as answer:
                cookies.update({name: each.value for name, each in answer.cookies.items()})
                return answer.status, await answer.text()

        async def show_docs() -> int:
            async with asyncio.timeout(TIMEOUT):
                # A busy cluster may not answer in time.
                while (status := (await ask("GET", "/ui/docs"))[0]) == 503:
                    pass
            return status

        client.cookie_jar.clear()
        _, form = await ask("GET", "/ui/sign-in")
        proof = re.search(r'name="csrf" value="([^"]+)"', form)
        assert proof is not None
        about = {"csrf": proof[1], "key": "ghp_of_mona", "repository": "acme/widgets"}
        assert (await ask("POST", "/ui/sign-in", **about))[0] == 303
        assert {await show_docs() for _ in range(30)} == {200}
