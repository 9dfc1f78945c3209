"""151 real CI runs, from the files to the answers, beside a count that shares no code with it."""

from __future__ import annotations

import asyncio
import csv
import gzip
import sqlite3
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from indexing.names import RepositoryName
from service.cli import main
from service.settings import Settings
from tests.service.conftest import open_door

SAMPLES = Path(__file__).parents[1] / "samples" / "lammps"
SEARCH = "/v1/ci/lammps/repositories/lammps/search/tests"

Counts = dict[str, Counter[str]]


def count_files() -> tuple[Counts, dict[str, set[str]]]:
    """Conclusions and test names of each job, as plainly as they can be counted."""
    counts: Counts = defaultdict(Counter)
    names: dict[str, set[str]] = defaultdict(set)
    with (SAMPLES / "manifest.csv").open(newline="") as manifest:
        for row in csv.DictReader(manifest):
            with gzip.open(SAMPLES / row["file"]) as report:
                for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own samples
                    failed = case.find("failure") is not None
                    counts[row["job_name"]]["failed" if failed else "passed"] += 1
                    names[row["job_name"]].add(f"{case.get('classname')}.{case.get('name')}")
    return dict(counts), dict(names)


def count_store(path: Path) -> Counts:
    connection = sqlite3.connect(path)
    counts: Counts = defaultdict(Counter)
    for job, conclusion, count in connection.execute(
        "SELECT job_name, conclusion, count(*) FROM executions JOIN runs ON runs.id = run"
        " GROUP BY 1, 2"
    ):
        counts[job][("passed", "failed", "skipped")[conclusion]] = count
    connection.close()
    return dict(counts)


async def run(*arguments: str) -> Result:
    """Run `mergewatch`, which has an event loop of its own, beside this one."""
    invoke = partial(CliRunner().invoke, main, arguments, catch_exceptions=False)
    result = await asyncio.to_thread(invoke)
    assert result.exit_code == 0, result.output
    return result


async def test_real_runs_come_out_as_they_stand_in_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, names = count_files()
    total = sum(sum(counter.values()) for counter in counts.values())
    monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(tmp_path))
    await run("repository", "set", "lammps/lammps", "--default-branch", "develop")
    for written, unchanged in ((total, 0), (0, total)):
        summary = f"read {total}, written {written}, unchanged {unchanged}, refused 0"
        manifest = str(SAMPLES / "manifest.csv")
        loaded = await run("ingest", "junit", "--repository=lammps/lammps", "--manifest", manifest)
        assert loaded.stderr.splitlines()[-1] == summary
        assert count_store(tmp_path / "mergewatch.db") == counts
    async for door in open_door(tmp_path, Settings(data_dir=tmp_path)):
        key = await door.new_key(owner="lammps")
        found: dict[str, set[str]] = {}
        for job in names:
            url: str | None = f"{SEARCH}?test_name=*&job_name={job}&per_page=100&sort=test_name"
            found[job] = set()
            seen = 0
            while url:
                answer = await door.get(url, key=key)
                assert answer.status == 200
                seen += answer.json["size"]
                found[job] |= {test["test_name"] for test in answer.json["tests"]}
                url = answer.links.get("next")
            assert seen == len(found[job])
        assert found.pop("linux-x86_64-gcc") == set()
        assert found == {job: each for job, each in names.items() if job in found}
        assert len(found["windows-msvc"]) == 1_096
        assert len(set().union(*found.values())) == 1_124
        assert await door.store.find_repository(RepositoryName("Lammps", "LAMMPS")) is not None
