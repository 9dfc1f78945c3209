from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.ports import HOST
from tests.servers.process import ServerError, ServerProcess

ROOT = Path(__file__).parents[2]

# A process that starts a server, prints its port, and then only waits.
PARENT = """
import sys
from pathlib import Path
from tests.servers.redis import Redis

redis = Redis(Path(sys.argv[1])).start()
print(redis.port.number, flush=True)
sys.stdin.readline()
redis.suspend()
print("suspended", flush=True)
sys.stdin.readline()
"""


def never() -> bool:
    return False


def test_a_server_that_ends_instead_of_answering_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = "for number in range(99): print('line', number)\nraise SystemExit(3)"
    process = ServerProcess([sys.executable, "-c", script], tmp_path, tmp_path / "log")
    with pytest.raises(ServerError, match=r"(?s)^a server: ended with 3\nline 59\n.*\nline 98\Z"):
        process.wait_until(never, "a server")
    process.kill()


@pytest.mark.parametrize("suspended", [False, True])
def test_a_server_ends_when_the_process_that_started_it_is_killed(
    suspended: bool, tmp_path: Path
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent, socket.create_connection((HOST, int(parent.stdout.readline())), 60) as connection:
        # A response means that the connection was accepted: it then closes normally, not by a
        # reset.
        connection.sendall(b"PING\r\n")
        assert connection.recv(100) == b"+PONG\r\n"
        if suspended:
            parent.stdin.write("\n")
            parent.stdin.flush()
            parent.stdout.readline()
        parent.kill()
        assert connection.recv(1) == b""
