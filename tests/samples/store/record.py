"""Records a sample of a store as this release writes it: `python -m tests.samples.store.record`.

It writes `version-N.db.gz` and `version-N.json` beside itself; N is the version of the tables. Run
it once for each version, on the last commit that writes it, and never again: later releases must be
able to open exactly this recording.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import sqlite3
import tempfile
from pathlib import Path

from click.testing import CliRunner

from service.cli import main
from tests.samples.store.content import fill
from tests.samples.store.requests import ask_all

FOLDER = Path(__file__).parent


def record() -> Path:
    """Record the sample; return the file of the store."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["MERGEWATCH_DATA_DIR"] = str(folder)
        keys = fill(_run, folder)
        file = folder / "mergewatch.db"
        with contextlib.closing(sqlite3.connect(file)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            # A single file, without a write-ahead log.
            connection.execute("PRAGMA journal_mode = DELETE")
        stored = FOLDER / f"version-{version}.db.gz"
        stored.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
        answers = asyncio.run(ask_all(folder, keys))
        recorded = {"keys": keys, "answers": answers}
        text = json.dumps(recorded, ensure_ascii=False, indent=1, sort_keys=True)
        stored.with_name(f"version-{version}.json").write_text(text + "\n", encoding="utf-8")
        return stored


def _run(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    if done.exit_code != 0:
        raise SystemExit(f"mergewatch {' '.join(arguments)}: {done.output}")
    return done.stdout


if __name__ == "__main__":
    record()
