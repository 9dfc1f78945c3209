"""Where a backup may be written or read: paths without permission, and files of the store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.service.cli.conftest import Command, forbid


@pytest.fixture
def store(settings: Mapping[str, str], command: Command) -> Path:
    """The file of a store."""
    command("index", "create")
    return Path(settings["MERGEWATCH_DATA_DIR"]) / "mergewatch.db"


@pytest.mark.parametrize("forbidden", ["the store", "the backup"])
@pytest.mark.parametrize("action", ["backup", "restore"])
def test_a_folder_without_permission_is_one_line(
    command: Command,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    forbidden: str,
    action: str,
) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    command("index", "backup", str(copies / "a.db"))
    with monkeypatch.context() as patched:
        forbid(patched, store.parent if forbidden == "the store" else copies)
        told = command("index", action, "--force", str(copies / "a.db"), code=1).stderr
    expected = {
        "the store": f"the store is unavailable: the store {store} failed: Permission denied",
        "the backup": f"{copies / 'a.db'} cannot be used as a backup: Permission denied",
    }
    assert told == f"Error: {expected[forbidden]}\n"


def test_a_file_that_is_no_backup_does_not_make_the_store_unavailable(
    command: Command, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("This is no database, and longer than the head of one." * 20)
    told = command("index", "restore", "--force", str(tmp_path / "text"), code=1).stderr
    assert f"{tmp_path / 'text'} cannot be used as a backup" in told
    assert "the store" not in told


@pytest.mark.parametrize("words", [(), ("--force",)])
def test_a_folder_takes_no_backup(
    command: Command, store: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    told = command("index", "backup", *words, str(tmp_path), code=1).stderr
    assert told == f"Error: {tmp_path} is a folder: name the file too\n"


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("through", ["folder", "link"])
def test_a_backup_takes_no_name_of_a_companion_file_of_the_store(
    command: Command, store: Path, tmp_path: Path, end: str, through: str
) -> None:
    (tmp_path / "link").symlink_to(store.parent)
    folder = store.parent if through == "folder" else tmp_path / "link"
    target = folder / f"{store.name}{end}"
    for words in ((), ("--force",)):
        told = command("index", "backup", *words, str(target), code=1).stderr
        assert "companion file of the store" in told
        assert list(store.parent.iterdir()) == [store]
    command("index", "backup", str(tmp_path / target.name))


def test_a_path_need_not_be_utf_8(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / os.fsdecode(b"a\xff")
    monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(odd))
    command("repository", "set", "acme/widgets")
    command("index", "backup", str(odd) + ".bak")
    monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(odd) + ".new")
    command("index", "restore", str(odd) + ".bak")
    assert "acme/widgets" in command("repository", "list").stdout
