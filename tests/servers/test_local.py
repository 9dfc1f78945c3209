from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.servers.process import DEADLINE

ROOT = Path(__file__).parents[2]


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.local", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def named(process: subprocess.Popen[str], variable: str) -> str:
    """The value from the line that exports this variable."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(rf"export {variable}=(\S+)\n", line)
    assert found is not None, process.communicate(timeout=DEADLINE)
    return found[1]


async def test_both_run_until_they_are_interrupted_and_what_was_stored_is_there_again(
    tmp_path: Path,
) -> None:
    for number, expected in ((signal.SIGINT, 201), (signal.SIGTERM, 200)):
        with started(tmp_path) as process:
            url = named(process, "MERGEWATCH_ELASTICSEARCH_URL")
            assert named(process, "MERGEWATCH_REDIS_URL").startswith("redis://127.0.0.1:")
            async with aiohttp.ClientSession(url) as client:
                async with client.put("/made/_doc/1", json={"a": 1}) as response:
                    assert response.status == expected
                process.send_signal(number)
                _, errors = process.communicate(timeout=DEADLINE)
                assert process.returncode == 0, errors
                with pytest.raises(aiohttp.ClientConnectionError):
                    await client.get("/")
