"""One Elasticsearch node for all test processes of a run.

A node for each process would take a fifth more CPU time. pytest-xdist's controller starts the node
before the test processes, which find its URL in the environment. Each process has index prefixes of
its own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.servers.elasticsearch import Node
from tests.servers.folder import server_folder
from tests.servers.process import DEADLINE, POLL, ServerError

URL_VARIABLE: Final = "MERGEWATCH_TEST_ELASTICSEARCH_URL"
# The tests of several processes hold more at once than the default heap has room for.
HEAP: Final = "1g"

_running = ExitStack()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    if config.getoption("--quick") or os.environ.get(URL_VARIABLE):
        return
    node = Node(Path(_running.enter_context(server_folder())), heap=HEAP)
    # Test processes start and collect while the node starts; a test that needs it waits for it.
    node.run()
    _running.callback(_stop, node)
    os.environ[URL_VARIABLE] = node.url


def pytest_unconfigure() -> None:
    """Stop the node; does nothing in a process that has not started it."""
    _running.close()


@pytest.fixture(scope="session")
def elasticsearch_url(without_servers: None) -> Iterator[str]:
    """One node for all tests; a test that breaks Elasticsearch starts its own."""
    url = os.environ.get(URL_VARIABLE)
    if url:
        _wait_until_ready(url)
        yield url
        return
    with server_folder() as folder, Node(Path(folder)) as started:
        yield started.url


def _wait_until_ready(url: str) -> None:
    """Wait until the node that another process has started responds."""
    deadline = time.monotonic() + DEADLINE
    while not _is_ready(url):
        if time.monotonic() > deadline:
            raise ServerError(f"{url}: not ready within {DEADLINE:.0f} s")
        time.sleep(POLL)


def _is_ready(url: str) -> bool:
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=5)) as connection:
        try:
            connection.request("GET", "/_cluster/health?wait_for_status=yellow&timeout=1s")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False


def _stop(node: Node) -> None:
    if not node.alive:
        sys.stderr.write(f"{node.name} has ended:\n{node.process.tail()}\n")
    node.stop()
