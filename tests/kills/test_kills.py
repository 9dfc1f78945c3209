"""A load that is killed at any moment and run again ends in the state of one that was not.

`make kills` does so a hundred times for each store.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indexing.store import ElasticsearchPlace
from tests.conftest import empty
from tests.kills.commands import kill, run
from tests.kills.loads import LOADS, Load
from tests.kills.state import read_all, read_status

# Confirmed kills of each load over each store.
KILLS = int(os.environ.get("MERGEWATCH_TEST_KILLS", "2"))
# A kill that came too early or too late is tried again.
TRIES_A_KILL = 20

MakePlace = Callable[[], ElasticsearchPlace | Path]


@pytest.fixture(params=["sqlite", "elasticsearch"])
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> MakePlace:
    """Gives the place of a store with nothing in it; the one before is gone then."""
    if request.param == "elasticsearch":
        place: ElasticsearchPlace = request.getfixturevalue("elasticsearch_place")

        def make_empty() -> ElasticsearchPlace | Path:
            empty(place)
            return place

        return make_empty

    def make_folder() -> ElasticsearchPlace | Path:
        folder = tmp_path / "store"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    return make_folder


@pytest.mark.parametrize("name", LOADS)
def test_a_killed_load_that_is_run_again_ends_in_the_state_of_a_clean_one(
    make_place: MakePlace, tmp_path: Path, name: str
) -> None:
    load = LOADS[name](tmp_path)
    place = prepared(make_place, load)
    lasts = run(place, load.arguments)
    expected = asyncio.run(read_all(place, load.repositories))
    moments = random.Random(name)
    confirmed = tries = 0
    while confirmed < KILLS:
        tries += 1
        assert tries <= KILLS * TRIES_A_KILL
        place = prepared(make_place, load)
        before = asyncio.run(read_status(place))
        if not kill(place, load.arguments, after=moments.uniform(0, lasts)):
            continue
        if asyncio.run(read_status(place)) == before:
            continue
        run(place, load.arguments)
        assert asyncio.run(read_all(place, load.repositories)) == expected
        confirmed += 1


def prepared(make_place: MakePlace, load: Load) -> ElasticsearchPlace | Path:
    place = make_place()
    run(place, load.settings or ("index", "create"))
    return place
