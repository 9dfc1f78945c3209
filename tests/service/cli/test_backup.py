"""Backups of the embedded store: made under load, and checked."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from indexing.store import open_store
from indexing.store.sqlite.schema import SCHEMA_VERSION
from indexing.timestamps import format_timestamp
from tests.builders import WIDGETS, after, make_event
from tests.forked import run_forked
from tests.indexing.store.sqlite.versions import damage, dump_of, load_samples, version_of
from tests.service.cli.conftest import Command
from tests.service.processes import TIMEOUT, Service, port_of

ROOT = Path(__file__).parents[3]
LOG = "/v1/repos/acme/widgets/logs"
# About 10 MiB: a copy takes several steps.
STOCK = 20_000
BACKUPS = 3
WRITERS = 3
# The minimum number of events that the writers add during each backup.
WRITTEN_BETWEEN = 5


class Writers:
    """Clients that send events to a service one by one, and record which it acknowledged."""

    def __init__(self, port: int, key: str) -> None:
        self.acknowledged: set[int] = set()
        self.sent: set[int] = set()
        self._changed = threading.Condition()
        self._done = False
        self._threads = [
            threading.Thread(target=self._write, args=(port, key, number))
            for number in range(WRITERS)
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, more: int) -> set[int]:
        """Wait for so many more acknowledged events; return all acknowledged so far."""
        with self._changed:
            goal = len(self.acknowledged) + more
            assert self._changed.wait_for(lambda: len(self.acknowledged) >= goal, TIMEOUT)
            return set(self.acknowledged)

    def stop(self) -> None:
        self._done = True
        for thread in self._threads:
            thread.join(TIMEOUT)

    def _write(self, port: int, key: str, number: int) -> None:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        with closing(client):
            while not self._done:
                event = 10 * STOCK + number
                number += WRITERS
                self.sent.add(event)
                body = make_event(event, datetime.now(UTC)).body
                headers = {
                    "Authorization": f"Bearer {key}",
                    "Content-Type": "application/x-ndjson",
                }
                client.request("POST", LOG, body, headers)
                answer = client.getresponse()
                answer.read()
                if answer.status == http.HTTPStatus.OK:
                    with self._changed:
                        self.acknowledged.add(event)
                        self._changed.notify_all()


def test_backups_under_load_hold_all_that_was_acknowledged_before_they_began(
    command: Command,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: Callable[..., Service],
) -> None:
    asyncio.run(fill(folder))
    key = command("keys", "create", "--name", "k", "--owner", "acme", "--scope", "admin")
    secret = key.stdout.strip()
    service = start(MERGEWATCH_INGEST="true", MERGEWATCH_DATA_DIR=str(folder))
    writers = Writers(port_of(service.next_line("listening")), secret)
    before = []
    try:
        for number in range(BACKUPS):
            before.append(writers.wait_for(WRITTEN_BETWEEN))
            back_up_elsewhere(folder, tmp_path / f"{number}.db")
        writers.wait_for(WRITTEN_BETWEEN)
    finally:
        writers.stop()
    service.stop()
    for number, acknowledged in enumerate(before):
        restored = tmp_path / f"restored-{number}"
        monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(restored))
        command("index", "restore", str(tmp_path / f"{number}.db"))
        service = start(MERGEWATCH_DATA_DIR=str(restored))
        found = read_log(port_of(service.next_line("listening")), secret)
        assert set(range(STOCK)) <= found
        assert acknowledged <= found
        assert found <= set(range(STOCK)) | writers.sent
        service.stop()


async def fill(folder: Path) -> None:
    store = await open_store(folder)
    await store.ensure_repository(WIDGETS)
    for first in range(0, STOCK, 1_000):
        numbers = range(first, first + 1_000)
        await store.write_events([make_event(n, after(seconds=n)) for n in numbers])
    await store.close()


def back_up_elsewhere(folder: Path, target: Path) -> None:
    environment = os.environ | {"MERGEWATCH_DATA_DIR": str(folder)}
    run_forked("index", "backup", str(target), environment=environment)


def read_log(port: int, key: str) -> set[int]:
    """Return the ids of all events that the service returns."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    beginning = format_timestamp(after(days=-1))
    target: str | None = f"{LOG}?per_page=100&received_from={beginning}"
    found: set[int] = set()
    with closing(client):
        while target is not None:
            client.request("GET", target, headers={"Authorization": f"Bearer {key}"})
            answer = client.getresponse()
            assert answer.status == http.HTTPStatus.OK
            links = answer.headers.get_all("Link") or []
            found |= {event["id"] for event in orjson.loads(answer.read())["events"]}
            following = [link for link in ", ".join(links).split(", ") if 'rel="next"' in link]
            target = None
            if following:
                target = "/" + following[0].partition(">")[0].split("/", 3)[3]
    return found


def test_a_backup_is_one_file_for_its_owner_alone(
    command: Command, sample: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"
    told = command("index", "backup", str(target)).stderr
    assert f"of version {version_of(sample)} to {target}" in told
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path != sample.parent] == ["copy.db"]
    assert dump_of(target) == dump_of(sample)


def test_a_backup_overwrites_only_by_force(command: Command, sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    refused = command("index", "backup", str(target), code=1).stderr
    assert refused == f"Error: {target} exists already; --force overwrites it\n"
    assert target.read_text() == "precious"
    command("index", "backup", "--force", str(target))
    assert dump_of(target) == dump_of(sample)
    own = command("index", "backup", "--force", str(sample), code=1)
    assert "is the store itself" in own.stderr


def test_a_backup_of_nothing_makes_nothing(command: Command, folder: Path, tmp_path: Path) -> None:
    assert "no store at" in command("index", "backup", str(tmp_path / "c.db"), code=1).stderr
    assert not folder.exists()
    assert not (tmp_path / "c.db").exists()


def test_a_damaged_store_gives_no_backup(command: Command, sample: Path, tmp_path: Path) -> None:
    damage(sample)
    told = command("index", "backup", str(tmp_path / "copy.db"), code=1).stderr
    assert "damaged" in told or "malformed" in told
    assert sample.name in told
    assert "partial" not in told
    assert list(tmp_path.iterdir()) == [sample.parent]


def test_a_store_of_an_earlier_release_is_backed_up_as_it_is(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    oldest = load_samples()[0]
    path = oldest.unpack(folder)
    command("index", "backup", str(tmp_path / "copy.db"))
    assert version_of(path) == version_of(tmp_path / "copy.db") == oldest.version
    # Only opening the store upgrades it.
    shown = command("index", "status")
    assert f"version       {oldest.version}\n" in shown.stdout
    assert f"known version {SCHEMA_VERSION}\n" in shown.stdout
    assert "older version" in shown.stderr
    assert version_of(path) == oldest.version
    command("index", "create")
    assert f"version       {SCHEMA_VERSION}\n" in command("index", "status").stdout


def test_a_store_of_a_newer_release_is_recognised(
    command: Command, sample: Path, tmp_path: Path
) -> None:
    command("index", "create")
    with closing(sqlite3.connect(sample)) as connection:
        connection.execute("PRAGMA user_version = 99")
    shown = command("index", "status", code=1)
    assert "version       99\n" in shown.stdout
    assert "newer version" in shown.stderr
    for words in (("index", "create"), ("index", "backup", str(tmp_path / "copy.db"))):
        assert "is of version 99" in command(*words, code=1).stderr


def test_a_terminated_backup_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    asyncio.run(fill(folder))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(folder), str(tmp_path / "copy.db")],
        env=os.environ | {"PYTHONPATH": str(ROOT), "MERGEWATCH_DATA_DIR": str(folder)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"copying\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == [folder]


# A backup whose first step lasts until the process is told to stop.
SLOW = """
import signal, sys
from indexing.store.sqlite import backup
from service.cli import main

copy = backup._copy

def slow(source, target, progress):
    def wait(what, done, total):
        print("copying", flush=True)
        signal.pause()
    copy(source, target, wait)

backup._copy = slow
main(["index", "backup", sys.argv[2]])
"""


@pytest.mark.parametrize("words", [("backup", "copy.db"), ("restore", "copy.db")])
def test_elasticsearch_has_snapshots_instead(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MERGEWATCH_ELASTICSEARCH_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("MERGEWATCH_ELASTICSEARCH_PREFIX", "ours")
    told = command("index", *words, code=2).stderr
    assert "ours-*" in told
    assert "snapshot" in told
