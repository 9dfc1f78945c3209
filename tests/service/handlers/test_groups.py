"""GET …/tests/groups."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from indexing.models.executions import Conclusion
from indexing.models.groups import MOST_GROUPS
from service.cache.reader import CachedReader
from service.handlers import code_owners
from tests.builders import (
    GADGETS,
    NOON,
    WIDGETS,
    load_history,
    load_names,
    make_executions,
    make_run,
)
from tests.service.front_door import TESTS, FrontDoor
from tests.waiting import until

P, F = Conclusion.PASSED, Conclusion.FAILED
GROUPS = f"{TESTS}/groups"


async def test_groups_have_the_fields_of_the_interface(door: FrontDoor) -> None:
    await load_history(door.store, "src/hinge.test.js > opens", "linux", [P, F, F, F])
    await load_history(door.store, "knob", "linux", [P])
    await load_names(door.store, ["foreign"], repository=GADGETS)
    await door.store.refresh_tests(NOON)
    answer = await door.get(f"{GROUPS}?by=directory")
    assert answer.json == {
        "groups": [
            {
                "value": "src",
                "tests": 1,
                "healthy": 0,
                "flaky": 0,
                "broken": 1,
                "unknown": 0,
                "executions_count": 4,
                "failed_executions_count": 3,
            },
            {
                "value": None,
                "tests": 1,
                "healthy": 1,
                "flaky": 0,
                "broken": 0,
                "unknown": 0,
                "executions_count": 1,
                "failed_executions_count": 0,
            },
        ]
    }
    tag = {"If-None-Match": answer.headers["ETag"]}
    assert (await door.get(f"{GROUPS}?by=directory", **tag)).status == 304
    (group,) = (await door.get(f"{GROUPS}?by=job")).json["groups"]
    assert (group["value"], group["tests"]) == ("linux", 2)


async def test_a_result_that_arrives_shows_in_the_groups(door: FrontDoor) -> None:
    for number in (1, 2):
        await load_names(door.store, [f"t{number}"])
        (group,) = (await door.get(f"{GROUPS}?by=pipeline")).json["groups"]
        assert group["tests"] == number


async def test_a_burst_of_equal_requests_is_computed_once(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(door.store, ["hinge"])
    asked, computed, released = [], [], asyncio.Event()
    find, compute = CachedReader.find_groups, door.reader.group_tests

    async def find_slowly(*about: Any) -> Any:
        asked.append(about)
        return await find(*about)

    async def compute_slowly(*about: Any) -> Any:
        computed.append(about)
        await released.wait()
        return await compute(*about)

    monkeypatch.setattr(CachedReader, "find_groups", find_slowly)
    monkeypatch.setattr(door.reader, "group_tests", compute_slowly)
    burst = [asyncio.create_task(door.get(f"{GROUPS}?by=job")) for _ in range(20)]
    await until(lambda: len(asked) == len(burst) and bool(computed))
    released.set()
    answers = await asyncio.gather(*burst)
    assert {answer.status for answer in answers} == {200}
    assert len(computed) == 1


async def test_only_the_worst_groups_are_listed(door: FrontDoor) -> None:
    await door.store.ensure_repository(WIDGETS)
    written = {}
    for number in range(MOST_GROUPS + 5):
        run = make_run(job=f"job {number:03}")
        written[run] = make_executions(run, [(f"t{number}", F if number % 200 == 7 else P)])
    await door.store.write_results(WIDGETS, written)
    await door.store.refresh_tests(NOON)
    found = (await door.get(f"{GROUPS}?by=job")).json["groups"]
    assert len(found) == MOST_GROUPS
    assert [group["value"] for group in found[:4]] == ["job 007", "job 207", "job 407", "job 000"]


async def test_owners_are_those_of_the_stored_file(door: FrontDoor) -> None:
    await door.store.ensure_repository(WIDGETS)
    for name, path in (("a", "src/a.py"), ("b", "src/b.js"), ("c", None)):
        run = make_run(name)
        made = make_executions(run, [(name, F if name == "b" else P)], filepath=path)
        await door.store.write_results(WIDGETS, {run: made})
    await door.store.refresh_tests(NOON)

    async def owned() -> dict[str | None, int]:
        found = (await door.get(f"{GROUPS}?by=owner")).json["groups"]
        return {group["value"]: group["tests"] for group in found}

    assert await owned() == {None: 3}
    await door.store.set_code_owners(WIDGETS, "* @all\n*.js @web @all")
    assert await owned() == {"@all": 2, "@web": 1, None: 1}
    await door.store.set_code_owners(WIDGETS, None)
    assert await owned() == {None: 3}


async def test_a_file_that_costs_too_much_is_no_answer_but_what_was_found_is_kept(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await door.store.ensure_repository(WIDGETS)
    for name in "abc":
        run = make_run(name)
        await door.store.write_results(
            WIDGETS, {run: make_executions(run, [(name, P)], filepath=name)}
        )
    await door.store.refresh_tests(NOON)
    # A file that no other test has made the process read.
    await door.store.set_code_owners(WIDGETS, f"# {door.base}\n[abc]* @x")
    # The clock reads zero until it has been looked at three times: for the deadline, before the
    # file is parsed, and for one rule.
    looks = iter([0.0, 0.0, 0.0])
    monkeypatch.setattr(code_owners, "time", SimpleNamespace(monotonic=lambda: next(looks, 1e9)))
    answer = await door.get(f"{GROUPS}?by=owner")
    assert answer.status == 503
    assert answer.headers["Retry-After"]
    looks = iter([0.0, 0.0, 0.0, 0.0])
    (group,) = (await door.get(f"{GROUPS}?by=owner")).json["groups"]
    assert (group["value"], group["tests"]) == ("@x", 3)
