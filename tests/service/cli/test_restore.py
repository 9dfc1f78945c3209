"""Restoring a backup of the embedded store, and what keeps the store from being replaced."""

from __future__ import annotations

import errno
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.indexing.store.sqlite.versions import damage, dump_of
from tests.service.cli.conftest import Command
from tests.service.processes import Service


def content_of(path: Path) -> list[tuple[object, ...]]:
    """Everything in a store but its id, which a restore replaces."""
    return [row for row in dump_of(path) if row[:2] != ("meta", "store_id")]


def test_a_restore_keeps_the_store_that_it_replaces(
    command: Command, sample: Path, folder: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "copy.db"
    command("index", "backup", str(backup))
    command("repository", "set", "acme/later")
    replaced = dump_of(sample)
    refused = command("index", "restore", str(backup), code=1).stderr
    assert f"there is a store at {sample} already; --force replaces it" in refused
    told = command("index", "restore", "--force", str(backup)).stderr
    kept = Path(told.partition("kept as ")[2].splitlines()[0])
    assert dump_of(kept) == replaced
    assert content_of(sample) == content_of(backup)
    assert dump_of(sample) != dump_of(backup)
    assert stat.S_IMODE(sample.stat().st_mode) == 0o600


def test_a_copy_with_its_log_is_restored_whole_and_stays_as_it_is(
    command: Command, sample: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copy"
    copied.mkdir()
    with closing(sqlite3.connect(sample)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        with writer:
            writer.execute("UPDATE repositories SET default_branch = 'logged'")
        for file in sample.parent.glob(f"{sample.name}*"):
            (copied / file.name).write_bytes(file.read_bytes())
        expected = content_of(sample)
    before = {file.name: file.read_bytes() for file in copied.iterdir()}
    assert f"{sample.name}-wal" in before
    command("index", "restore", "--force", str(copied / sample.name))
    assert content_of(sample) == expected
    assert {file.name: file.read_bytes() for file in copied.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("PRAGMA user_version = 99", "is of version 99"),
        ("PRAGMA application_id = 1", "but not a store of mergewatch"),
    ],
)
def test_a_file_of_another_program_or_release_makes_no_store_unavailable(
    command: Command, sample: Path, tmp_path: Path, change: str, reason: str
) -> None:
    backup = tmp_path / "copy.db"
    command("index", "backup", str(backup))
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute(change)
    before = dump_of(sample)
    told = command("index", "restore", "--force", str(backup), code=1).stderr
    assert f"Error: {backup} cannot be used as a backup: " in told
    assert reason in told
    assert dump_of(sample) == before


@pytest.mark.parametrize("failing", ["sync", "rename"])
def test_a_restore_that_fails_leaves_the_store_in_its_place(
    command: Command,
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
) -> None:
    backup = tmp_path / "copy.db"
    command("index", "backup", str(backup))
    command("repository", "set", "acme/later")
    before = dump_of(sample)

    def fail(path: Path, *_: object) -> None:
        # Any process that starts meanwhile finds the store.
        assert sample.exists()
        raise OSError(errno.EIO, f"{path} fails")

    target = "indexing.store.sqlite.backup._sync" if failing == "sync" else "pathlib.Path.replace"
    with monkeypatch.context() as patched:
        patched.setattr(target, fail)
        command("index", "restore", "--force", str(backup), code=1)
    assert dump_of(sample) == before


@pytest.mark.parametrize("text", [b"", b"no database at all" * 100])
def test_a_file_that_is_no_backup_is_not_restored(
    command: Command, sample: Path, tmp_path: Path, text: bytes
) -> None:
    before = sample.read_bytes()
    (tmp_path / "copy.db").write_bytes(text)
    told = command("index", "restore", "--force", str(tmp_path / "copy.db"), code=1).stderr
    assert "copy.db" in told
    assert "partial" not in told
    assert sample.read_bytes() == before
    assert list(sample.parent.iterdir()) == [sample]


def test_a_damaged_backup_is_not_restored(command: Command, sample: Path, tmp_path: Path) -> None:
    backup = tmp_path / "copy.db"
    command("index", "backup", str(backup))
    damage(backup)
    before = sample.read_bytes()
    told = command("index", "restore", "--force", str(backup), code=1).stderr
    assert "copy.db" in told
    assert "partial" not in told
    assert sample.read_bytes() == before


def test_a_store_in_use_is_not_replaced(
    command: Command,
    folder: Path,
    sample: Path,
    tmp_path: Path,
    start: Callable[..., Service],
) -> None:
    backup = tmp_path / "copy.db"
    command("index", "backup", str(backup))
    service = start(MERGEWATCH_DATA_DIR=str(folder))
    service.next_line("listening")
    assert "in use" in command("index", "restore", "--force", str(backup), code=1).stderr
    service.stop()
    command("index", "restore", "--force", str(backup))


def test_a_store_that_is_damaged_beyond_opening_is_replaced(
    command: Command, sample: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "copy.db"
    command("index", "backup", str(backup))
    expected = content_of(sample)
    sample.write_bytes(b"\0" * 5_000)
    command("index", "restore", "--force", str(backup))
    assert content_of(sample) == expected
