"""The servers that tests share: each is started when the first test asks for it, once a session.

A server that runs already is used instead where the environment names it, which saves the start:
`MERGEWATCH_TEST_ELASTICSEARCH_URL`. Nothing is skipped: what is missing is an error.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.elasticsearch import Node


@pytest.fixture(scope="session")
def elasticsearch_url() -> Iterator[str]:
    """One node for all tests; each names indices of its own."""
    running = os.environ.get("MERGEWATCH_TEST_ELASTICSEARCH_URL")
    if running:
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="mergewatch-") as folder:
        node = Node(Path(folder))
        try:
            yield node.start().url
        finally:
            node.stop()
