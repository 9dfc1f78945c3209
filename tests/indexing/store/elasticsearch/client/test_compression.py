"""Long requests to other machines are compressed; a real node and a stand-in read them."""

from __future__ import annotations

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from indexing.models.executions import Conclusion
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch.client import connection as connection_module
from indexing.store.elasticsearch.client.compression import GZIP, LONG_BODY, is_worthwhile
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.interface import ExecutionCount
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import names, open_at


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["127.0.0.1"], False),
        (["localhost", "[::1]"], False),
        (["127.0.0.1", "10.0.0.7"], True),
        (["search.example.org"], True),
    ],
)
def test_requests_to_another_machine_are_compressed(hosts: list[str], *, expected: bool) -> None:
    assert is_worthwhile(hosts) is expected


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "is_worthwhile", lambda _: True)


@pytest.mark.usefixtures("elsewhere")
async def test_only_long_bodies_are_compressed(aiohttp_server: AiohttpServer) -> None:
    seen: list[tuple[str | None, str | None, int]] = []

    async def answer(request: web.Request) -> web.Response:
        headers = request.headers
        size = len(await request.read())
        seen.append((headers.get("content-encoding"), headers.get("accept-encoding"), size))
        return web.json_response({"items": []})

    application = web.Application()
    application.router.add_post("/_bulk", answer)
    server = await aiohttp_server(application)
    connection = Connection([str(server.make_url("/"))])
    for size, timeouts in ((LONG_BODY, WRITING), (LONG_BODY - 1, None)):
        await connection.request("POST", "/_bulk", b"x" * size, timeouts=timeouts)
    await connection.close()
    assert seen == [(GZIP, GZIP, LONG_BODY), (None, None, LONG_BODY - 1)]


@pytest.mark.usefixtures("elsewhere")
async def test_a_node_reads_what_was_compressed(elasticsearch_place: ElasticsearchPlace) -> None:
    store = await open_at(elasticsearch_place)
    await store.ensure_repository(WIDGETS)
    run = make_run()
    tests = [f"t{number:03}" for number in range(100)]
    executions = make_executions(run, [(test, Conclusion.PASSED) for test in tests])
    assert await store.write_results(WIDGETS, {run: executions}) == ExecutionCount(100, 0)
    await store.refresh_tests(NOON)
    assert await names(store) == tests
    await store.close()
