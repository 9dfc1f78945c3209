"""`mergewatch demo` and `serve`: a new user's first commands, on real processes over HTTP."""

from __future__ import annotations

import getpass
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
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from indexing.identifiers import derive_test_id
from indexing.ingest.lines import Line
from indexing.names import RepositoryName
from indexing.timestamps import parse_timestamp
from service.cli.demo_dates import read_events
from tests.service.cli.conftest import Command

pytestmark = pytest.mark.slow

# A failed test of the examples whose report has a stack trace.
TRACED = "test.test_spark.SparkTests.test_rsh_events"

MERGEWATCH = [sys.executable, "-c", "from service.cli import main; main()"]


@contextmanager
def serving(
    settings: Mapping[str, str], *options: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`mergewatch serve` on a free port, once it listens; with its address."""
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
    """Run a printed curl command against another address."""
    _, _, _, header, url = shlex.split(line)
    name, value = header.split(": ")
    request = urllib.request.Request(  # noqa: S310 - an http URL of this test's own
        re.sub(r"^http://[^/]+", base, url), headers={name: value}
    )
    with urllib.request.urlopen(request) as response:  # noqa: S310 - as above
        return response.status, response.read()


def open_link(link: str, base: str) -> str:
    """Open a printed link at another address; return the title of the page."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        with browser.open(re.sub(r"^http://[^/]+", base, link)) as response:
            page: str = response.read().decode()
    except urllib.error.HTTPError as error:
        page = error.read().decode()
    return page.partition("<title>")[2].partition(" ·")[0]


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
        link = next(line.strip() for line in second.splitlines() if "/ui/sign-in?" in line)
        assert open_link(link, base) == "Repositories"
        assert open_link(link, base) == "Sign in"
        # Only one demo key is valid at a time: the one printed before is revoked.
        with pytest.raises(urllib.error.HTTPError, match="403"):
            curl(next(line for line in first.splitlines() if line.startswith("curl ")), base)
        log, search, detail, quarantines, _ = (orjson.loads(body) for _, body in answers)
        assert log["size"] == 3
        assert search["size"] == 3
        assert detail["health_status"] == "flaky"
        assert len(quarantines["quarantined_tests"]) == 1
        changes = orjson.loads(curl(f"{lines[3][:-1]}/changes'", base)[1])["changes"]
        assert [(each["action"], each["actor"]["name"]) for each in changes] == [
            ("added", getpass.getuser())
        ]
        # An example has files, and a flaky test with a stack trace.
        ci = f"{lines[3].rpartition('/v1/')[0]}/v1/ci/demo/repositories/horovod"
        test = f"{ci}/tests/{derive_test_id(RepositoryName('demo', 'horovod'), TRACED)}"
        detail, failures = (
            orjson.loads(curl(f"{url}'", base)[1]) for url in (test, f"{test}/failures")
        )
        assert detail["health_status"] == "flaky"
        assert detail["test_filepath"] == "test/test_spark.py"
        [failure] = failures["failures"]
        found = orjson.loads(curl(f"{test}/failures/{failure['id']}'", base)[1])
        assert "143 != 0" in found["latest_events"][0]["exception_stacktrace"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_the_newest_example_is_of_now_and_stays_so_when_a_load_is_repeated(
    command: Command, settings: Mapping[str, str], tmp_path: Path
) -> None:
    examples = Path(__file__).parents[3] / "examples"
    (tmp_path / "events.ndjson").write_bytes((examples / "events.ndjson").read_bytes())
    before = datetime.now(UTC).replace(microsecond=0)
    # Fails after the events: there is nothing else to load.
    command("demo", "--examples", str(tmp_path), code=1)
    after = datetime.now(UTC)
    lines = [line for line in command("demo").stdout.splitlines() if line.startswith("curl ")]
    lines_of_examples = (examples / "events.ndjson").read_bytes().splitlines()
    assert f"events        {len(lines_of_examples)}\n" in command("index", "status").stdout
    with serving(settings) as (_, base):
        log, _, detail, _, _ = (orjson.loads(curl(line, base)[1]) for line in lines)
    assert "received_" not in lines[0]
    assert before <= parse_timestamp(log["events"][0]["received_at"]) <= after
    newest = max(parse_timestamp(detail[f"last_{what}_at"]) for what in ("failure", "success"))
    assert timedelta(0) <= after - newest < timedelta(days=8)


def test_dates_within_an_event_move_with_it() -> None:
    source = b'{"id": 7, "received_at": "2026-11-02T08:12:34Z", "at": "2026-11-02T08:12:00Z"}'
    events = read_events([Line(1, 0, source)])
    end = datetime(2027, 1, 1, tzinfo=UTC)
    (moved,) = events.moved_to(end)
    assert orjson.loads(moved.data) == {
        "id": 7,
        "received_at": "2027-01-01T00:00:00Z",
        "at": "2026-12-31T23:59:26Z",
    }
    assert events.find_end(7, end) == end


def test_the_examples_hold_all_41_types() -> None:
    path = Path(__file__).parents[3] / "examples" / "events.ndjson"
    assert len({orjson.loads(line)["type"] for line in path.read_bytes().splitlines()}) == 41


def test_a_store_with_other_data_is_left_alone(command: Command) -> None:
    command("repository", "set", "acme/widgets")
    result = command("demo")
    assert "curl" not in result.stdout
    assert "repositories  1\n" in command("index", "status").stdout


def test_an_interrupted_load_is_repeated(command: Command, tmp_path: Path) -> None:
    command("demo", "--examples", str(tmp_path), code=1)
    examples = Path(__file__).parents[3] / "examples"
    (tmp_path / "events.ndjson").write_bytes((examples / "events.ndjson").read_bytes())
    command("demo", "--examples", str(tmp_path), code=1)
    assert command("demo").stdout.count("curl ") == 5


def test_a_load_that_is_killed_after_the_events_is_repeated(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("service.cli.demo._load_reports", kill)
        command("demo", code=130)
    assert "repositories  1\n" in command("index", "status").stdout
    assert command("demo").stdout.count("curl ") == 5


def test_a_port_in_use_is_one_line(command: Command, settings: Mapping[str, str]) -> None:
    with serving(settings) as (_, base):
        port = base.rsplit(":", 1)[1]
        result = command("serve", "--port", port, code=1)
        assert result.stderr.count("\n") == 1
        assert port in result.stderr
