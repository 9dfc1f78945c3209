"""The servers that tests share: each is started when the first test asks for it, once a session.

A server that runs already is used instead where the environment names it, which saves the start:
`MERGEWATCH_TEST_ELASTICSEARCH_URL`, `MERGEWATCH_TEST_REDIS_URL`.
Nothing is skipped: what is missing is an error.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexing.store import ElasticsearchPlace
from tests.servers.elasticsearch import Node
from tests.servers.redis import Redis


@pytest.fixture(scope="session")
def elasticsearch_url() -> Iterator[str]:
    """One node for all tests; each names indices of its own."""
    yield from _running("MERGEWATCH_TEST_ELASTICSEARCH_URL", Node)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """One server for all tests; what harms it starts a server of its own."""
    yield from _running("MERGEWATCH_TEST_REDIS_URL", Redis)


def _running(variable: str, server: type[Node | Redis]) -> Iterator[str]:
    url = os.environ.get(variable)
    if url:
        yield url
        return
    with (
        tempfile.TemporaryDirectory(prefix="mergewatch-") as folder,
        server(Path(folder)) as started,
    ):
        yield started.url


@pytest.fixture
def elasticsearch_place(elasticsearch_url: str) -> ElasticsearchPlace:
    """A place in the shared node with nothing in it, the same for every test of this process."""
    place = ElasticsearchPlace((elasticsearch_url,), f"test-{os.getpid()}")
    empty(place)
    return place


def empty(place: ElasticsearchPlace) -> None:
    """Leave nothing in that place."""
    server = http.client.HTTPConnection(place.urls[0].removeprefix("http://"))
    with contextlib.closing(server):
        server.request("DELETE", f"/{place.prefix}-*")
        assert server.getresponse().status == http.HTTPStatus.OK
