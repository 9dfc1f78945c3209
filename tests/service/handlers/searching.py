"""Stores some tests, and searches them."""

from __future__ import annotations

from tests.builders import load_names, make_run
from tests.service.front_door import SEARCH, FrontDoor

NAMES = ["hinge.opens", "hinge.closes", "lid.fits", "lid.fits[a]", "Lid.fits", "hinge_100%"]


async def found(door: FrontDoor, query: str) -> list[tuple[str, str, str]]:
    answer = await door.get(f"{SEARCH}?{query}")
    assert answer.status == 200, answer.body
    assert answer.json["size"] == len(answer.json["tests"])
    return [(t["test_name"], t["pipeline_name"], t["job_name"]) for t in answer.json["tests"]]


async def fill(door: FrontDoor) -> None:
    await load_names(door.store, NAMES)
    await load_names(door.store, ["lid.fits"], make_run("2", pipeline="nightly", job="arm"))
    await load_names(door.store, ["other.branch"], make_run("3", branch="topic"))
