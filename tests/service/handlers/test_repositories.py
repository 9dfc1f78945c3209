"""GET /v1/ci/{owner}/repositories."""

from __future__ import annotations

from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from indexing.names import RepositoryName
from tests.builders import (
    FOREIGN,
    GADGETS,
    NOON,
    WIDGETS,
    after,
    load_names,
    make_event,
    make_executions,
    make_run,
)
from tests.service.front_door import FrontDoor

LIST = "/v1/ci/acme/repositories"
WIDGETS_ROW = {
    "repository": "acme/widgets",
    "default_branch": "main",
    "tests": {"healthy": 1, "flaky": 0, "broken": 1, "unknown": 0},
    "quarantined_tests": 1,
    "last_execution_at": "2026-09-01T12:03:00Z",
    "last_event_at": "2026-09-01T12:00:00Z",
}
NOTHING = {"healthy": 0, "flaky": 0, "broken": 0, "unknown": 0}


async def load(door: FrontDoor) -> None:
    await load_names(door.store, ["sound"])
    for number in range(4):
        run = make_run(f"{number}", commit=f"c{number}")
        results = make_executions(run, [("bad", Conclusion.FAILED)], after(minutes=number))
        await door.store.write_results(WIDGETS, {run: results})
    await load_names(door.store, ["alien"], repository=FOREIGN)
    await door.store.refresh_tests(NOON)
    await door.store.ensure_repository(GADGETS)
    await door.store.write_events([make_event(1)])
    await door.store.add_quarantine(WIDGETS, QuarantineRequest("bad", "x"), NOON)


def names_in(answer: object) -> list[str]:
    assert isinstance(answer, dict)
    return [row["repository"] for row in answer["repositories"]]


async def test_a_repository_has_the_fields_of_the_interface_in_their_order(
    door: FrontDoor,
) -> None:
    await load(door)
    answer = await door.get(f"{LIST}?sort=worst&per_page=1")
    assert answer.json == {"size": 1, "per_page": 1, "repositories": [WIDGETS_ROW]}
    assert [*answer.json["repositories"][0]] == [*WIDGETS_ROW]
    assert [*answer.json["repositories"][0]["tests"]] == [*NOTHING]
    again = await door.get(
        f"{LIST}?sort=worst&per_page=1", **{"If-None-Match": answer.headers["ETag"]}
    )
    assert again.status == 304
    (gadgets,) = (await door.get(f"{LIST}?repository=GADGETS")).json["repositories"]
    assert gadgets == {
        "repository": "acme/gadgets",
        "default_branch": "main",
        "tests": NOTHING,
        "quarantined_tests": 0,
        "last_execution_at": None,
        "last_event_at": None,
    }


async def test_repositories_are_walked_in_both_orders(door: FrontDoor) -> None:
    await load(door)
    # Names that differ only beyond what a cursor holds, and one that is hostile as a path.
    long = "x" * 900
    for name in (long + "a", long + "b", "..", "Zeta"):
        await door.store.ensure_repository(RepositoryName("acme", name))
    everything = ["acme/..", "acme/gadgets", "acme/widgets", f"acme/{long}a", f"acme/{long}b"]
    everything.append("acme/Zeta")
    for size in (1, 3, 4, 5, 6):
        pages = await door.walk(f"{LIST}?per_page={size}", "repositories")
        found = [row["repository"] for page in pages for row in page]
        assert found == everything
        last = (await door.get(f"{LIST}?per_page={size}")).links["last"]
        back = await door.walk(last, "repositories", "prev")
        assert [row["repository"] for page in reversed(back) for row in page] == everything
    for size in (1, 3, 4):
        worst = await door.walk(f"{LIST}?sort=worst&per_page={size}", "repositories")
        rows = [row["repository"] for page in worst for row in page]
        assert rows == ["acme/widgets", *(name for name in everything if name != "acme/widgets")]


async def test_a_key_of_one_repository_sees_that_one(door: FrontDoor) -> None:
    await load(door)
    key = await door.new_key(owner="ACME", repository="Widgets")
    found = (await door.get(LIST, key=key)).json
    assert names_in(found) == ["acme/widgets"]
    named = await door.get(f"{LIST}?repository=widgets", key=key)
    assert named.json == found
    other = await door.get(f"{LIST}?repository=gadgets", key=key)
    absent = await door.get(f"{LIST}?repository=nothing", key=key)
    assert (other.status, names_in(other.json)) == (200, [])
    assert other.body == absent.body
    assert names_in((await door.get(LIST)).json) == ["acme/gadgets", "acme/widgets"]


async def test_the_list_of_another_owner_is_like_that_of_an_unknown_one(door: FrontDoor) -> None:
    await load(door)
    foreign = await door.get("/v1/ci/umbrella/repositories")
    nobody = await door.get("/v1/ci/nobody/repositories")
    assert (foreign.status, nobody.status) == (404, 404)
    assert foreign.body == nobody.body
    ingest = await door.new_key(Scope.INGEST)
    assert (await door.get(LIST, key=ingest)).status == 403
    assert (await door.get("/v1/ci/umbrella/repositories", key=ingest)).body == foreign.body
    empty = await door.get("/v1/ci/newcomer/repositories", key=await door.new_key(owner="newcomer"))
    assert (empty.status, names_in(empty.json)) == (200, [])


async def test_an_owner_never_gets_the_list_of_another(door: FrontDoor) -> None:
    await load(door)
    theirs = await door.new_key(owner="umbrella")
    for _ in range(3):
        assert names_in((await door.get(LIST)).json) == ["acme/gadgets", "acme/widgets"]
        found = await door.get("/v1/ci/umbrella/repositories", key=theirs)
        assert names_in(found.json) == ["umbrella/widgets"]


async def test_every_wrong_parameter_is_named(door: FrontDoor) -> None:
    assert (await door.get("/v1/ci/ac_me/repositories")).wrong_fields == [("path", "owner")]
    wrong = await door.get(f"{LIST}?sort=size&per_page=101&repository=a/b&cursor=x")
    assert sorted(wrong.wrong_fields) == [
        ("query", "cursor"),
        ("query", "per_page"),
        ("query", "repository"),
        ("query", "sort"),
    ]
    other = (await door.get(f"{LIST}?sort=worst")).links["last"]
    moved = other.replace("sort=worst", "sort=name")
    assert (await door.get(moved)).wrong_fields == [("query", "cursor")]
