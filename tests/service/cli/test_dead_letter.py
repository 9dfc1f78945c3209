"""A dead-letter file never overwrites the input or another file with data."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.service.cli.conftest import Command


def test_standard_input_is_not_overwritten_with_what_is_refused_of_it(
    command: Command, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    command("index", "create")
    file = tmp_path / "lines.ndjson"
    file.write_bytes(b"not an event\n")
    with file.open("rb") as stream:
        result = subprocess.run(
            [
                *(sys.executable, "-c", "from service.cli import main; main()"),
                *("ingest", "events", "-", "--dead-letter", str(file)),
            ],
            stdin=stream,
            env={**settings, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            check=False,
        )
    assert result.returncode == 1
    assert b"one of the files to be read" in result.stderr
    assert file.read_bytes() == b"not an event\n"


def test_what_is_no_dead_letter_file_is_not_overwritten(
    command: Command, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    command("index", "create")
    store = Path(settings["MERGEWATCH_DATA_DIR"]) / "mergewatch.db"
    content = store.read_bytes()
    result = command("ingest", "events", "-", "--dead-letter", str(store), input=b"x\n", code=1)
    assert "would be lost" in result.stderr
    assert store.read_bytes() == content


def test_an_earlier_dead_letter_file_is_replaced(command: Command, tmp_path: Path) -> None:
    dead = tmp_path / "dead.ndjson"
    for raw in (b"one\n", b"two\n"):
        command("ingest", "events", "-", "--dead-letter", str(dead), input=raw, code=1)
    assert dead.read_bytes().count(b"\n") == 1
    assert b'"raw":"two"' in dead.read_bytes()


def test_an_earlier_dead_letter_file_stays_if_nothing_can_be_read(
    command: Command, tmp_path: Path
) -> None:
    dead = tmp_path / "dead.ndjson"
    words = ("ingest", "events", "--dead-letter", str(dead))
    command(*words, "-", input=b"one\n", code=1)
    command(*words, str(tmp_path / "missing"), code=1)
    assert b'"raw":"one"' in dead.read_bytes()
    # Each file that can be read adds its lines, wherever the missing one stands.
    file = tmp_path / "two.ndjson"
    file.write_bytes(b"two\n")
    command(*words, str(file), str(tmp_path / "missing"), "-", input=b"three\n", code=1)
    assert dead.read_bytes().count(b"\n") == 2
    assert b'"raw":"two"' in dead.read_bytes()
