"""151 real CI runs come out of Elasticsearch as out of SQLite: every test, every field."""

from __future__ import annotations

import asyncio
from pathlib import Path

from indexing.store import ElasticsearchPlace
from tests.service.real_runs import LAMMPS, ingest, set_up
from tests.whole_state import read_all


def test_real_runs_come_out_the_same_in_both_stores(
    tmp_path: Path, elasticsearch_place: ElasticsearchPlace
) -> None:
    said, found = [], []
    for place in (tmp_path, elasticsearch_place):
        set_up(LAMMPS, place)
        said.append(ingest(LAMMPS, place, LAMMPS.folder / "manifest.csv"))
        found.append(asyncio.run(read_all(place, [LAMMPS.repository])))
    assert said[0] == said[1]
    assert len(found[0]) > 2 * 1_124
    assert found[1] == found[0]
