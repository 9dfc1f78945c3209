"""`mergewatch demo` and `serve`: what a new user types first, on real processes and real HTTP."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from tests.service.cli.conftest import Command

MERGEWATCH = [sys.executable, "-c", "from service.cli import main; main()"]


@contextmanager
def serving(
    settings: Mapping[str, str], *options: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`mergewatch serve` on a free port, once it says that it listens; with its address."""
    process = subprocess.Popen(
        [*MERGEWATCH, "serve", "--port", "0", *options],
        env={**os.environ, **settings},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if '"listening"' in line:
                yield process, orjson.loads(line)["address"]
                break
        else:
            pytest.fail("the service ended before it listened")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def curl(line: str, base: str) -> tuple[int, bytes]:
    """Do what a printed curl line does, at another address."""
    _, _, _, header, url = shlex.split(line)
    name, value = header.split(": ")
    request = urllib.request.Request(  # noqa: S310 - an http URL of this test's own
        re.sub(r"^http://[^/]+", base, url), headers={name: value}
    )
    with urllib.request.urlopen(request) as response:  # noqa: S310 - as above
        return response.status, response.read()


def test_every_printed_line_answers_and_a_second_demo_changes_nothing(
    command: Command, settings: Mapping[str, str]
) -> None:
    first = command("demo").stdout
    status = command("index", "status").stdout
    second = command("demo").stdout
    assert command("index", "status").stdout == status
    with serving(settings) as (process, base):
        lines = [line for line in second.splitlines() if line.startswith("curl ")]
        assert len(lines) == 5
        answers = [curl(line, base) for line in lines]
        assert [status for status, _ in answers] == [200] * 5
        # One demo key at a time: what was printed before no longer opens anything.
        with pytest.raises(urllib.error.HTTPError, match="403"):
            curl(next(line for line in first.splitlines() if line.startswith("curl ")), base)
        log, search, detail, quarantines, _ = (orjson.loads(body) for _, body in answers)
        assert log["size"] == 3
        assert search["size"] == 3
        assert detail["health_status"] == "flaky"
        assert len(quarantines["quarantined_tests"]) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_the_examples_hold_all_41_types(command: Command) -> None:
    command("demo")
    path = Path(__file__).parents[3] / "examples" / "events.ndjson"
    assert len({orjson.loads(line)["type"] for line in path.read_bytes().splitlines()}) == 41


def test_a_store_with_other_data_is_left_alone(command: Command) -> None:
    command("repository", "set", "acme/widgets")
    result = command("demo")
    assert "curl" not in result.stdout
    assert "repositories  1\n" in command("index", "status").stdout


def test_a_load_that_was_broken_off_is_done_again(command: Command, tmp_path: Path) -> None:
    command("demo", "--examples", str(tmp_path), code=1)
    examples = Path(__file__).parents[3] / "examples"
    (tmp_path / "events.ndjson").write_bytes((examples / "events.ndjson").read_bytes())
    command("demo", "--examples", str(tmp_path), code=1)
    assert command("demo").stdout.count("curl ") == 5


def test_a_port_in_use_is_one_line(command: Command, settings: Mapping[str, str]) -> None:
    with serving(settings) as (_, base):
        port = base.rsplit(":", 1)[1]
        result = command("serve", "--port", port, code=1)
        assert result.stderr.count("\n") == 1
        assert port in result.stderr
