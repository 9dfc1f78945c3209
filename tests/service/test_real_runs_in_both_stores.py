"""151 real CI runs are read from Elasticsearch as from SQLite: every test, every field."""

from __future__ import annotations

import asyncio
import csv
from pathlib import Path

import pytest

from indexing.store import ElasticsearchPlace
from tests.service.real_runs import LAMMPS, ingest, set_up
from tests.whole_state import read_all

# Four jobs in two loads of equal duration: each contains the whole history of its jobs.
RUNS: dict[tuple[str, ...], int] = {
    ("linux-arm64", "macos-x86_64"): 83,
    ("linux-x86_64-gcc", "windows-msvc"): 68,
}


def write_manifest(path: Path, jobs: tuple[str, ...]) -> int:
    """Write a manifest of the runs of those jobs; return how many there are."""
    with (LAMMPS.folder / "manifest.csv").open(newline="") as manifest:
        rows = [row for row in csv.DictReader(manifest) if row["job_name"] in jobs]
    for row in rows:
        row["file"] = str(LAMMPS.folder / row["file"])
    with path.open("w", newline="") as manifest:
        writer = csv.DictWriter(manifest, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


@pytest.mark.parametrize("jobs", RUNS, ids=" and ".join)
def test_real_runs_come_out_the_same_in_both_stores(
    tmp_path: Path, elasticsearch_place: ElasticsearchPlace, jobs: tuple[str, ...]
) -> None:
    manifest = tmp_path / "manifest.csv"
    assert write_manifest(manifest, jobs) == RUNS[jobs]
    said, found = [], []
    for place in (tmp_path / "store", elasticsearch_place):
        set_up(LAMMPS, place)
        said.append(ingest(LAMMPS, place, manifest))
        found.append(asyncio.run(read_all(place, [LAMMPS.repository])))
    assert said[0] == said[1]
    assert len(found[0]) > 2 * 680
    assert found[1] == found[0]


def test_the_two_loads_are_all_runs(tmp_path: Path) -> None:
    every = tuple(job for jobs in RUNS for job in jobs)
    assert write_manifest(tmp_path / "manifest.csv", every) == sum(RUNS.values()) == 151
    assert len((LAMMPS.folder / "manifest.csv").read_text().splitlines()) == 152
