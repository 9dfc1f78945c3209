"""One Elasticsearch node for all test processes of a run.

A node for each process would take a fifth more CPU time. pytest-xdist's controller starts the node
before the test processes, which find its URL in the environment. Each process has index prefixes of
its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.servers.elasticsearch import Node
from tests.servers.folder import server_folder

URL_VARIABLE: Final = "MERGEWATCH_TEST_ELASTICSEARCH_URL"
# The tests of several processes hold more at once than the default heap has room for.
HEAP: Final = "1g"

_running = ExitStack()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    if config.getoption("--quick") or os.environ.get(URL_VARIABLE):
        return
    node = Node(Path(_running.enter_context(server_folder())), heap=HEAP)
    try:
        _running.enter_context(node)
    except (OSError, RuntimeError):
        # Each test that asks for a node tries to start one, and reports the error.
        return
    os.environ[URL_VARIABLE] = node.url


def pytest_unconfigure() -> None:
    """Stop the node; does nothing in a process that has not started it."""
    _running.close()


@pytest.fixture(scope="session")
def elasticsearch_url(without_servers: None) -> Iterator[str]:
    """One node for all tests; a test that breaks Elasticsearch starts its own."""
    url = os.environ.get(URL_VARIABLE)
    if url:
        yield url
        return
    with server_folder() as folder, Node(Path(folder)) as started:
        yield started.url
