from __future__ import annotations

import socket

from tests.servers.ports import HOST, reserve


def test_a_port_is_not_allocated_twice_even_if_unused() -> None:
    first = reserve()
    second = reserve(first.number)
    assert second.number != first.number
    first.release()
    third = reserve(first.number)
    assert third.number == first.number
    for port in (second, third):
        port.release()


def test_a_port_in_use_is_not_allocated() -> None:
    port = reserve()
    port.release()
    with socket.create_server((HOST, port.number)):
        other = reserve(port.number)
    assert other.number != port.number
    other.release()
