from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.elasticsearch import Node
from tests.servers.jars import JarsMissingError, elasticsearch_home
from tests.servers.process import ServerError


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as started:
        yield started


def count(node: Node) -> int:
    _, answer = node.ask("/made/_count")
    return int(answer["count"])


def test_a_killed_node_has_what_it_stored_when_it_is_back_on_the_same_url(node: Node) -> None:
    url = node.url
    node.ask("/made/_doc/1?refresh=true", "PUT", {"a": 1})
    node.kill()
    with pytest.raises(ConnectionRefusedError):
        count(node)
    node.restart()
    assert node.url == url
    assert count(node) == 1


def test_a_suspended_node_does_not_answer_until_it_is_resumed(node: Node) -> None:
    node.suspend()
    with pytest.raises(TimeoutError):
        node.ask("/_cluster/health", timeout=0.2)
    node.resume()
    status, health = node.ask("/_cluster/health")
    assert (status, health["number_of_nodes"]) == (200, 1)


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    node = Node(tmp_path, settings={"no.such.setting": True})
    with pytest.raises(ServerError, match=r"no\.such\.setting"):
        node.start()
    assert not node.alive
    node.release()


def test_one_node_serves_the_tests_of_a_session(elasticsearch_url: str) -> None:
    assert elasticsearch_url.startswith("http://")


def test_without_jars_and_network_the_error_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTPS_PROXY", "https_proxy"):
        # Nothing listens on this port.
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    with pytest.raises(JarsMissingError, match="the first run needs the network"):
        elasticsearch_home(tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["lock"]
