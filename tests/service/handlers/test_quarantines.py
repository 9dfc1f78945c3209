"""GET /v1/ci/{owner}/repositories/{repository}/quarantines, and one quarantine by its id."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.quarantines import Quarantine, QuarantineRequest
from indexing.models.repositories import RepositoryChange
from tests.builders import GADGETS, WIDGETS, after, make_executions, make_run
from tests.service.front_door import LOGS, QUARANTINES, FrontDoor
from tests.service.twelve_quarantines import COUNT, add_twelve


@pytest.fixture
async def made(door: FrontDoor) -> list[Quarantine]:
    return await add_twelve(door)


async def names(door: FrontDoor, query: str = "") -> list[str]:
    answer = await door.get(f"{QUARANTINES}?{query}")
    assert answer.status == 200, answer.body
    return [row["test_name"] for row in answer.json["quarantined_tests"]]


async def test_without_paging_all_come_oldest_first_and_without_links(
    door: FrontDoor, made: list[Quarantine]
) -> None:
    answer = await door.get(QUARANTINES)
    assert [*answer.json] == ["quarantined_tests"]
    assert [row["id"] for row in answer.json["quarantined_tests"]] == [str(m.key.id) for m in made]
    assert "Link" not in answer.headers


async def test_a_quarantine_has_the_fields_of_the_interface(
    door: FrontDoor, made: list[Quarantine]
) -> None:
    expected = {
        "id": str(made[1].key.id),
        "test_name": "hinge.1",
        "reason": "reason 1",
        "branch": "main",
        "created_at": "2026-09-01T12:01:00Z",
        "source": "auto",
        "is_recovered": False,
    }
    one = (await door.get(f"{QUARANTINES}/{made[1].key.id}")).json
    assert one == expected
    assert [*one] == [*expected]
    assert (await door.get(QUARANTINES)).json["quarantined_tests"][1] == expected


@pytest.mark.usefixtures("made")
async def test_the_filters_narrow_the_list(door: FrontDoor) -> None:
    assert await names(door, "branch=release/1.2/x&source=manual") == [
        "hinge.0",
        "hinge.2",
        "hinge.6",
        "hinge.8",
    ]
    assert "hinge.2" not in await names(door, "branch=main")
    test_id = derive_test_id(WIDGETS, "hinge.7")
    assert await names(door, f"test_id={str(test_id).upper()}") == ["hinge.7"]
    assert await names(door, f"test_id={uuid.UUID(int=0)}") == []


async def test_a_walk_gives_every_quarantine_once_either_way(
    door: FrontDoor, made: list[Quarantine]
) -> None:
    expected = [str(quarantine.key.id) for quarantine in made]
    for per_page in (1, 5, COUNT, COUNT + 1):
        target = f"{QUARANTINES}?per_page={per_page}"
        pages = await door.walk(target, "quarantined_tests")
        assert [row["id"] for page in pages for row in page] == expected
        last = (await door.get(target)).links["last"]
        back = await door.walk(last, "quarantined_tests", "prev")
        assert [row["id"] for page in reversed(back) for row in page] == expected


@pytest.mark.usefixtures("made")
async def test_a_cursor_without_a_page_size_means_ten(door: FrontDoor) -> None:
    first = (await door.get(f"{QUARANTINES}?per_page=1")).links["first"]
    answer = await door.get(first.replace("per_page=1&", ""))
    assert len(answer.json["quarantined_tests"]) == 10
    assert "next" in answer.links


async def load_hinge(door: FrontDoor, results: Mapping[int, Conclusion]) -> None:
    """One result a day, each of a commit of its own."""
    for day, conclusion in results.items():
        run = make_run(str(day), commit=f"c{day}")
        executions = make_executions(run, [("hinge.0", conclusion)], after(days=day))
        await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(after(days=9), repository=WIDGETS)


async def test_details_have_the_owner_the_expiry_and_the_verdicts_since(
    door: FrontDoor,
) -> None:
    for branch in (None, "release/*"):
        request = QuarantineRequest("hinge.0", "flaps", branch, "mona", after(days=20))
        await door.store.add_quarantine(WIDGETS, request, after(days=1 if branch else 0))
    door.clock.now = after(days=10)
    failed, passed = Conclusion.FAILED, Conclusion.PASSED
    await load_hinge(door, {-1: failed, 0: failed, 1: failed, 2: passed})
    plain = (await door.get(QUARANTINES)).json["quarantined_tests"]
    detailed = (await door.get(f"{QUARANTINES}?include=details")).json["quarantined_tests"]
    more = {
        "test_id": str(derive_test_id(WIDGETS, "hinge.0")),
        "owner": "mona",
        "expires_at": "2026-09-21T12:00:00Z",
    }
    since = [{"passed": 1, "failed": 1, "flaky": 0}, {"passed": 1, "failed": 0, "flaky": 0}]
    assert detailed == [
        row | more | {"verdicts_since": counts} for row, counts in zip(plain, since, strict=True)
    ]
    assert [*detailed[0]] == [*plain[0], *more, "verdicts_since"]


async def test_a_load_shows_in_the_details(door: FrontDoor) -> None:
    await door.store.add_quarantine(WIDGETS, QuarantineRequest("hinge.0", "flaps"), after())
    door.clock.now = after(days=10)
    for day in range(1, 4):
        await load_hinge(door, {day: Conclusion.PASSED})
        (row,) = (await door.get(f"{QUARANTINES}?include=details")).json["quarantined_tests"]
        assert row["verdicts_since"] == {"passed": day, "failed": 0, "flaky": 0}
    assert (row["owner"], row["expires_at"]) == (None, None)


@pytest.mark.usefixtures("made")
async def test_details_come_in_pages_and_with_any_cursor(
    door: FrontDoor,
) -> None:
    first = await door.get(f"{QUARANTINES}?include=details&source=manual&per_page=4")
    assert len(first.json["quarantined_tests"]) == 4
    answer = await door.get(first.links["next"])
    assert [row["test_name"] for row in answer.json["quarantined_tests"]] == ["hinge.8", "hinge.10"]
    plain = (await door.get(f"{QUARANTINES}?source=manual&per_page=4")).links["next"]
    assert (await door.get(f"{plain}&include=details")).body == answer.body
    assert len((await door.get(f"{QUARANTINES}?include=details")).json["quarantined_tests"]) == 10


async def test_an_unknown_detail_is_refused(door: FrontDoor) -> None:
    answer = await door.get(f"{QUARANTINES}?include=metrics")
    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "include")


async def test_expired_and_removed_quarantines_are_not_listed(
    door: FrontDoor, made: list[Quarantine]
) -> None:
    await door.store.remove_quarantine(WIDGETS, made[5].key.id, after(hours=1))
    door.clock.now = after(days=1)
    left = await names(door)
    assert len(left) == COUNT - 2
    for gone in (made[0], made[5]):
        assert (await door.get(f"{QUARANTINES}/{gone.key.id}")).status == 404


async def test_an_absent_quarantine_and_one_of_another_repository_answer_alike(
    door: FrontDoor,
) -> None:
    foreign, _ = await door.store.add_quarantine(
        GADGETS, QuarantineRequest(test_name="hinge", reason="because"), after()
    )
    absent = await door.get(f"{QUARANTINES}/{uuid.uuid4()}")
    elsewhere = await door.get(f"{QUARANTINES}/{foreign.key.id}")
    assert (absent.status, absent.body) == (404, elsewhere.body)


async def test_a_load_that_makes_a_test_flaky_shows_in_the_list(door: FrontDoor) -> None:
    await door.store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), after())
    for attempt, conclusion in enumerate([Conclusion.FAILED, Conclusion.PASSED], start=1):
        run = make_run(attempt=attempt)
        executions = make_executions(run, [("hinge", conclusion)], after(minutes=attempt))
        await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(after(hours=1))
    door.clock.now = after(hours=2)
    (row,) = (await door.get(f"{QUARANTINES}?source=auto&branch=feature")).json["quarantined_tests"]
    assert row["reason"].startswith("flaky on the default branch")
    assert row | {"id": None, "reason": None} == {
        "id": None,
        "test_name": "hinge",
        "reason": None,
        "branch": None,
        "created_at": "2026-09-01T13:00:00Z",
        "source": "auto",
        "is_recovered": False,
    }


async def test_the_log_has_changes_of_automatic_quarantine(door: FrontDoor) -> None:
    changes = (
        RepositoryChange(auto_quarantine=True),
        RepositoryChange(auto_quarantine=True),
        RepositoryChange(ignore_broken_on_default_branch=True),
        RepositoryChange(default_branch="next"),
        RepositoryChange(auto_quarantine=False),
    )
    for minute, change in enumerate(changes):
        await door.store.set_repository(WIDGETS, change, after(minutes=minute))
    door.clock.now = after(hours=1)
    disabled, modified, enabled = (await door.get(LOGS)).json["events"]
    actor = enabled["metadata"]["enabled_by"]
    assert (actor["type"], actor["name"]) == ("application", "mergewatch")
    assert uuid.UUID(actor["id"]).version == 5
    off, on = ({"ignore_broken_on_default_branch": value} for value in (False, True))
    assert enabled | {"id": 0} == {
        "id": 0,
        "received_at": "2026-09-01T12:00:00Z",
        "trigger": "CLI",
        "repository": "acme/widgets",
        "pull_request": None,
        "base_ref": None,
        "type": "ci_insights.auto_quarantine.enabled",
        "metadata": {
            "enabled_by": actor,
            "enabled_at": "2026-09-01T12:00:00Z",
            "auto_quarantine_config_attributes": off,
        },
    }
    assert (modified["type"], modified["metadata"]) == (
        "ci_insights.auto_quarantine.modified",
        {
            "updated_by": actor,
            "updated_at": "2026-09-01T12:02:00Z",
            "auto_quarantine_config_attributes_before": off,
            "auto_quarantine_config_attributes_after": on,
        },
    )
    assert (disabled["type"], disabled["metadata"]) == (
        "ci_insights.auto_quarantine.disabled",
        {
            "disabled_by": actor,
            "disabled_at": "2026-09-01T12:04:00Z",
            "auto_quarantine_config_attributes": on,
        },
    )
