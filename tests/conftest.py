"""The servers that tests share: each is started when the first test asks for it, once a session.

A server that runs already is used instead where the environment names it, which saves the start:
`MERGEWATCH_TEST_ELASTICSEARCH_URL`, `MERGEWATCH_TEST_REDIS_URL`.
Nothing is skipped: what is missing is an error.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
