"""Recorded stores of every version, and migrations that are interrupted."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.samples.store.requests import Answer, ask_all

SAMPLES = Path(__file__).parents[3] / "samples" / "store"


@dataclass(frozen=True)
class Sample:
    """A store as some release wrote it, and the responses over it at that time."""

    file: Path
    version: int
    keys: Mapping[str, str]
    answers: Mapping[str, Answer]

    def unpack(self, folder: Path) -> Path:
        """Unpack the store into a data folder; return its file."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "mergewatch.db"
        path.write_bytes(gzip.decompress(self.file.read_bytes()))
        return path

    async def check_answers(self, folder: Path) -> None:
        """Check that the real service gives the recorded responses over that data folder."""
        found = await ask_all(folder, self.keys)
        assert found.keys() == self.answers.keys()
        for path, (status, body) in self.answers.items():
            assert found[path][0] == status, path
            assert_contains(found[path][1], body, path)


def load_samples() -> list[Sample]:
    samples = []
    for file in sorted(SAMPLES.glob("version-*.db.gz")):
        version = int(file.name.removeprefix("version-").removesuffix(".db.gz"))
        recorded = json.loads((SAMPLES / f"version-{version}.json").read_text(encoding="utf-8"))
        answers = {path: (status, body) for path, (status, body) in recorded["answers"].items()}
        samples.append(Sample(file, version, recorded["keys"], answers))
    return samples


def load_sample(version: int) -> Sample:
    (sample,) = (each for each in load_samples() if each.version == version)
    return sample


def assert_contains(found: Any, recorded: Any, where: str) -> None:
    """Compare a response with a recorded one.

    Later releases may add fields, and explain a problem in other words.
    """
    if isinstance(recorded, dict):
        assert isinstance(found, dict), where
        assert recorded.keys() <= found.keys(), where
        is_problem = recorded.keys() >= {"type", "title", "status"}
        for name in recorded.keys() - ({"detail"} if is_problem else set()):
            assert_contains(found[name], recorded[name], f"{where} {name}")
    elif isinstance(recorded, list):
        assert len(found) == len(recorded), where
        for number, (one, other) in enumerate(zip(found, recorded, strict=True)):
            assert_contains(one, other, f"{where} {number}")
    else:
        assert found == recorded, where


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version


def dump_of(path: Path) -> list[tuple[object, ...]]:
    """The SQL of all tables and indexes, and all rows, including those of the trigram index."""
    with closing(sqlite3.connect(path)) as connection:
        found: list[tuple[object, ...]] = connection.execute(
            "SELECT type, name, sql FROM sqlite_master"
        ).fetchall()
        for kind, name, sql in tuple(found):
            # The content of a virtual table is in ordinary ones.
            if kind == "table" and not str(sql).startswith("CREATE VIRTUAL"):
                found += connection.execute(f"SELECT '{name}', * FROM '{name}'")
        return found


def schema_of(path: Path) -> set[tuple[str, ...]]:
    """The columns of every table and index, independent of the spelling of their SQL."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
        found = {tuple(map(str, row)) for row in names}
        for kind, name, _ in names:
            columns = connection.execute(f"PRAGMA {kind}_xinfo('{name}')").fetchall()
            found |= {(kind, name, *map(str, column)) for column in columns}
            keys = connection.execute(f"PRAGMA foreign_key_list('{name}')").fetchall()
            found |= {("key", name, *map(str, key)) for key in keys}
        return found


def damage(path: Path) -> None:
    """Overwrite a page of an index of a store."""
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'executions_by_time'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size + size // 2)
        file.write(b"\xff" * (size // 2))
