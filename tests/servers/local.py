"""`make services`: Elasticsearch and Redis on this machine until Ctrl-C or SIGTERM.

Elasticsearch keeps its data for the next run; `make clean` deletes it.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Final

import click

from tests.servers.elasticsearch import Node
from tests.servers.jars import CACHE, JarsMissingError
from tests.servers.jdk import JdkMissingError
from tests.servers.process import Server, ServerError
from tests.servers.redis import Redis, RedisMissingError

# The standard ports, if they are free.
ELASTICSEARCH_PORT: Final = 9200
REDIS_PORT: Final = 6379
# Seconds between two checks that both still run.
LOOK: Final = 1.0


def serve(data: Path) -> None:
    """Run both servers, print the settings that name them, and return when one of them ends.

    Raises:
        ServerError: contains the end of the log of the server that ended.
    """
    redis = Redis(data / "redis", port=REDIS_PORT)
    node = Node(data / "elasticsearch", quick_start=False, port=ELASTICSEARCH_PORT)
    click.echo("Starting Elasticsearch and Redis…", err=True)
    with redis, node:
        click.echo(f"export MERGEWATCH_ELASTICSEARCH_URL={node.url}")
        click.echo(f"export MERGEWATCH_REDIS_URL={redis.url}")
        servers: tuple[Server, ...] = (redis, node)
        while all(server.alive for server in servers):
            threading.Event().wait(LOOK)
        ended = next(server for server in servers if not server.alive)
        raise ServerError(f"a server ended by itself\n{ended.process.tail()}")


def main() -> int:
    # SIGINT too: a script that starts this in the background may have it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        serve(Path(*sys.argv[1:2]) if sys.argv[1:] else CACHE / "data")
    except KeyboardInterrupt:
        return 0
    except (JarsMissingError, JdkMissingError, RedisMissingError, ServerError) as error:
        click.echo(f"error: {error}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
