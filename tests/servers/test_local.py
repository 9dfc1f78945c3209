from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.servers.process import DEADLINE

ROOT = Path(__file__).parents[2]


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.servers.local", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def named(process: subprocess.Popen[str], variable: str) -> str:
    """The value of the line that exports this variable."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(rf"export {variable}=(\S+)\n", line)
    assert found is not None, process.communicate(timeout=DEADLINE)
    return found[1]


async def test_both_run_until_they_are_interrupted_and_what_was_stored_is_there_again(
    tmp_path: Path,
) -> None:
    for number, expected in ((signal.SIGINT, 201), (signal.SIGTERM, 200)):
        process = started(tmp_path)
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
