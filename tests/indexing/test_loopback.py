"""Hosts that are this machine."""

from __future__ import annotations

import pytest

from indexing.loopback import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1", "[::1]"])
def test_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "example.com", "localhost.example.com", "127.1", "10.0.0.1", "::"]
)
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)
