"""Commands that only read, remove or recompute fail if there is no store, and create none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.service.cli.conftest import ON_EVERY_STORE, Command

ID = "00000000-0000-4000-8000-000000000000"
WHERE = "--repository=acme/widgets"

COMMANDS = (
    "index status",
    "index status --json",
    "index prune",
    "index rebuild",
    "keys list",
    "keys revoke 0123456789abcdef",
    "repository list",
    "repository show acme/widgets",
    "webhook list",
    f"webhook remove {WHERE} {ID}",
    f"webhook retry {WHERE} {ID}",
    f"webhook test {WHERE} {ID}",
    f"ingest undo {WHERE} --run-id=1 --yes",
    "ingest undo --misdated --yes",
    f"tests forget {WHERE} --test=a --yes",
    f"quarantine list {WHERE}",
    f"quarantine changes {WHERE}",
    f"quarantine remove {WHERE} {ID}",
    f"quarantine remove {WHERE} --test-glob=* --yes",
    f"quarantine add {WHERE} --test-glob=* --reason=r --yes",
)


@ON_EVERY_STORE
def test_a_missing_store_is_named_and_not_created(
    settings: Mapping[str, str], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWATCH_ELASTICSEARCH_PREFIX", "missing")
    for line in COMMANDS:
        shown = command(*line.split(), code=1)
        assert shown.stdout == "", line
        # That it is told to the last command shows that none before it created a store.
        assert "no store" in shown.stderr, line
        assert "`mergewatch index create`" in shown.stderr, line
    assert not Path(settings["MERGEWATCH_DATA_DIR"]).exists()


def test_commands_that_store_something_create_the_store(command: Command, folder: Path) -> None:
    command("keys", "create", "--name=a", "--owner=acme", "--scope=read")
    assert (folder / "mergewatch.db").exists()


@pytest.mark.parametrize("below", ["", "data"])
@pytest.mark.parametrize("line", ["keys create --name=a --owner=acme --scope=read", "serve"])
def test_a_file_in_the_place_of_the_folder_is_named(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, below: str, line: str
) -> None:
    folder.write_text("a file")
    monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(folder / below))
    told = command(*line.split(), code=1).stderr
    assert told.startswith(f"Error: the store needs the folder {folder / below}, but ")
