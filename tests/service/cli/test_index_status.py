"""`mergewatch index status`: what the store holds, and the last prune."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from indexing.pruning import PruneRun
from indexing.store.interface import Store
from indexing.timestamps import parse_timestamp
from service.cli.running import with_store
from tests.service.cli.conftest import ON_EVERY_STORE, Command, forbid

BEGAN = datetime(2026, 11, 22, 3, 17, tzinfo=UTC)


def test_a_folder_without_permission_is_one_line(
    settings: Mapping[str, str], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(settings["MERGEWATCH_DATA_DIR"])
    with monkeypatch.context() as patched:
        forbid(patched, folder)
        told = command("index", "status", code=1).stderr
    assert told == f"Error: {folder / 'mergewatch.db'}: Permission denied\n"


@ON_EVERY_STORE
def test_the_last_prune_is_shown(settings: Mapping[str, str], command: Command) -> None:
    assert settings
    command("index", "create")
    assert "last prune    -\n" in command("index", "status").stdout
    assert json.loads(command("index", "status", "--json").stdout)["last_prune"] is None
    command("index", "prune")
    shown = json.loads(command("index", "status", "--json").stdout)
    assert shown["executions"] == 0
    last = shown["last_prune"]
    assert parse_timestamp(last["began_at"]) <= parse_timestamp(last["ended_at"])
    assert (last["events"], last["executions"]) == (0, 0)
    line = command("index", "status").stdout.splitlines()[-1]
    assert line == (
        f"last prune    began {last['began_at']}, ended {last['ended_at']},"
        " removed 0 events and 0 executions"
    )


def record(run: PruneRun) -> None:
    async def write(store: Store) -> None:
        assert await store.replace_prune_run(await store.get_prune_run(), run)

    with_store(write)


def test_a_run_without_an_end_is_shown_as_such(command: Command) -> None:
    record(PruneRun("a", began_at=BEGAN, alive_at=BEGAN))
    assert "last prune    began 2026-11-22T03:17:00Z, not ended\n" in (
        command("index", "status").stdout
    )
    assert json.loads(command("index", "status", "--json").stdout)["last_prune"] == {
        "began_at": "2026-11-22T03:17:00Z",
        "ended_at": None,
        "events": 0,
        "executions": 0,
    }


@pytest.mark.parametrize("recorded", ["another", "ended"])
def test_a_run_of_the_service_that_is_not_the_recorded_one_does_nothing(
    command: Command, monkeypatch: pytest.MonkeyPatch, recorded: str
) -> None:
    monkeypatch.setattr("os.nice", lambda _: 0)
    run = PruneRun(recorded, began_at=BEGAN, alive_at=BEGAN)
    run = run.ended(BEGAN, 1, 2) if recorded == "ended" else run
    record(run)
    command("index", "prune", "--run", "ended")

    async def read(store: Store) -> PruneRun | None:
        return await store.get_prune_run()

    assert with_store(read) == run
