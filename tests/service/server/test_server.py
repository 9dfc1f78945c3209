"""The service as a process: readiness, one or several workers, and graceful shutdown."""

from __future__ import annotations

import http.client
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.server.draining import refuse_new_connections
from service.server.process import ServeError, bind
from tests.service.processes import TIMEOUT, Start, port_of
from tests.waiting import until


@pytest.fixture(autouse=True)
def terminal() -> Iterator[None]:
    """Handle SIGHUP as from a terminal, even if these tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def status_of(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status
    finally:
        connection.close()


def count_descriptors(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_process_is_ready_and_ends_well(start: Start, number: signal.Signals) -> None:
    service = start()
    listening = service.next_line("listening")
    assert listening["store"] == "sqlite"
    assert status_of(port_of(listening)) == 200
    assert service.stop(number) == 0


def test_an_idle_connection_does_not_hold_the_end_up(start: Start) -> None:
    service = start()
    port = port_of(service.next_line("listening"))
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as idle:
        idle.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        assert idle.recv(65_536).startswith(b"HTTP/1.1 200")
        assert service.stop() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process as only Linux can")
async def test_a_process_without_file_descriptors_serves_its_last_request(start: Start) -> None:
    service = start()
    port = port_of(service.next_line("listening"))
    limit = count_descriptors(service.process.pid) + 20
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    with ExitStack() as stack:

        def connect() -> socket.socket:
            address = ("127.0.0.1", port)
            return stack.enter_context(socket.create_connection(address, timeout=TIMEOUT))

        under_way = connect()
        under_way.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\n")
        for _ in range(limit):
            connect()
        await until(lambda: count_descriptors(service.process.pid) >= limit)
        service.process.send_signal(signal.SIGTERM)
        under_way.sendall(b"\r\n")
        assert under_way.recv(65_536).startswith(b"HTTP/1.1 200")
        assert service.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors as only Linux can")
def test_more_clients_connect_than_the_soft_limit_of_descriptors_allows(start: Start) -> None:
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = count_descriptors(os.getpid()) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    try:
        service = start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))
    port = port_of(service.next_line("listening"))
    with ExitStack() as stack:
        for _ in range(limit):
            address = ("127.0.0.1", port)
            stack.enter_context(socket.create_connection(address, timeout=TIMEOUT))
        assert status_of(port) == 200
    assert service.stop() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_last_response_on_a_busy_connection_says_so(
    start: Start, number: signal.Signals, workers: str
) -> None:
    service = start(MERGEWATCH_WORKERS=workers)
    port = port_of(service.next_line("listening"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("GET", "/health/live")
    assert connection.getresponse().read()
    service.process.send_signal(number)
    said = None
    while said is None:
        # Neither a reset nor a silent close, whenever the signal arrives.
        connection.request("GET", "/health/live")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
        said = answer.getheader("Connection")
    assert said == "close"
    assert service.wait() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_was_started_to_survive_its_terminal_does(
    start: Start, workers: str
) -> None:
    # As `nohup` does; child processes inherit it.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        service = start(MERGEWATCH_WORKERS=workers)
    finally:
        signal.signal(signal.SIGHUP, before)
    port = port_of(service.next_line("listening"))
    service.process.send_signal(signal.SIGHUP)
    assert {status_of(port) for _ in range(20)} == {200}
    assert service.stop() == 0


def test_two_workers_answer_on_one_port_and_end_together(start: Start) -> None:
    service = start(MERGEWATCH_WORKERS="2")
    lines = [service.next_line("listening") for _ in range(2)]
    pids = {line["pid"] for line in lines}
    assert len({line["address"] for line in lines}) == 1
    assert len(pids) == 2
    assert service.process.pid not in pids
    assert {status_of(port_of(lines[0])) for _ in range(10)} == {200}
    assert service.stop() == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_that_dies_is_replaced(start: Start) -> None:
    service = start(MERGEWATCH_WORKERS="2")
    first = service.next_line("listening")
    service.next_line("listening")
    os.kill(first["pid"], signal.SIGKILL)
    assert service.next_line("worker died")["pid"] == first["pid"]
    another = service.next_line("listening")
    assert another["pid"] != first["pid"]
    assert status_of(port_of(another)) == 200
    assert service.stop() == 0


def test_a_terminated_worker_leaves_the_others_their_socket(start: Start) -> None:
    service = start(MERGEWATCH_WORKERS="2")
    first = service.next_line("listening")
    service.next_line("listening")
    os.kill(first["pid"], signal.SIGTERM)
    assert service.next_line("stopped")["pid"] == first["pid"]
    # No connection is refused: each of these is a new one.
    assert {status_of(port_of(first)) for _ in range(20)} == {200}
    assert service.stop() == 0


def test_workers_do_not_outlive_their_supervisor(start: Start) -> None:
    service = start(MERGEWATCH_WORKERS="2")
    pids = {service.next_line("listening")["pid"] for _ in range(2)}
    service.process.kill()
    assert {service.next_line("stopped")["pid"] for _ in range(2)} == pids


def test_workers_that_cannot_start_end_the_service(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mergewatch.db").write_bytes(b"this is not a database" * 100)
    service = start(MERGEWATCH_WORKERS="2", MERGEWATCH_LOG_FORMAT="text")
    _, written = service.process.communicate(timeout=TIMEOUT)
    assert service.process.returncode == 1
    assert "Traceback" not in written
    assert "worker cannot start" in written


def test_accepted_connections_are_served_and_new_ones_are_refused() -> None:
    with bind("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        with socket.create_connection(address, timeout=TIMEOUT) as before:
            refuse_new_connections(listener)
            with pytest.raises(TimeoutError):
                socket.create_connection(address, timeout=0.2)
            accepted, peer = listener.accept()
            with accepted:
                assert peer == before.getsockname()
                before.sendall(b"still there")
                accepted.settimeout(TIMEOUT)
                assert accepted.recv(100) == b"still there"
            with pytest.raises(BlockingIOError):
                listener.accept()


def test_a_port_in_use_is_one_clear_line() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"cannot listen on 127.0.0.1 port {port}"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize("host", ["256.0.0.1", "no such host", "192.0.2.1"])
def test_an_address_of_nowhere_is_one_clear_line(host: str) -> None:
    with pytest.raises(ServeError, match="cannot listen on"):
        bind(host, 0)
