"""POST and DELETE of quarantines, and the list of changes."""

from __future__ import annotations

import gzip
import uuid
from typing import Any

import orjson
import pytest

from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest, QuarantineSource
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.service.conftest import on_every_stack
from tests.service.front_door import QUARANTINES, Answer, FrontDoor

CHANGES = f"{QUARANTINES}/changes"
JSON = "application/json"


async def post(door: FrontDoor, key: str | None = None, **body: Any) -> Answer:
    return await door.post(QUARANTINES, orjson.dumps(body), JSON, key=key)


async def load(door: FrontDoor, name: str) -> None:
    run = make_run("1")
    executions = make_executions(run, [(name, Conclusion.PASSED)])
    await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)


@pytest.fixture
async def key(door: FrontDoor) -> str:
    return await door.add_key(scope=Scope.QUARANTINE, name="a bot")


@on_every_stack
async def test_a_test_is_quarantined_found_and_released(door: FrontDoor, key: str) -> None:
    await load(door, "t")
    assert (await door.get(QUARANTINES)).json == {"quarantined_tests": []}
    added = await post(door, key, test_name="t", reason="flaps", branch="release/*", owner="mona")
    assert added.status == 201
    assert [*added.json] == ["id"]
    assert added.headers["Location"] == f"{QUARANTINES}/{added.json['id']}"
    # The list was cached: it shows the change at once.
    (row,) = (await door.get(QUARANTINES)).json["quarantined_tests"]
    assert (row["id"], row["branch"], row["source"]) == (added.json["id"], "release/*", "manual")
    door.clock.now = after(minutes=1)
    again = await post(door, key, test_name="t", reason="still", branch="release/*")
    assert (again.status, again.json) == (200, added.json)
    place = added.headers["Location"]
    assert (await door.get(place)).json["reason"] == "still"
    removed = await door.get(place, key=key, method="DELETE")
    assert (removed.status, removed.body) == (204, b"")
    assert (await door.get(place, key=key, method="DELETE")).status == 404
    assert (await door.get(place)).status == 404


async def test_an_unknown_test_is_accepted_with_a_warning(door: FrontDoor, key: str) -> None:
    added = await post(door, key, test_name="t", reason="flaps")
    assert (added.status, [*added.json]) == (201, ["id", "warning"])


async def test_members_without_effect_are_accepted_with_a_warning_that_names_them(
    door: FrontDoor, key: str
) -> None:
    body = {"test_name": "a", "reason": "flaps"}
    plain = (await post(door, key, **body)).json["warning"]
    added = await post(door, key, **body, expires="2027-01-31", **{"é 1": None, "x" * 100: 1})
    assert added.status == 200
    assert added.json["warning"] == (
        f"members of the body that are not known have no effect: %C3%A9%201, expires, *; {plain}"
    )


async def test_changes_name_the_key_that_made_them(door: FrontDoor, key: str) -> None:
    added = await post(door, key, test_name="t", reason="flaps")
    door.clock.now = after(minutes=1)
    await door.get(added.headers["Location"], key=key, method="DELETE")
    door.clock.now = after(minutes=2)
    await post(door, key, test_name="u", reason="x", expires_at="2026-09-01T12:03:00Z")
    door.clock.now = after(minutes=4)
    page = await door.get(f"{CHANGES}?per_page=3")
    assert [*page.json] == ["size", "per_page", "changes"]
    assert (page.json["size"], page.json["per_page"]) == (3, 3)
    rows = [row for part in await door.walk(f"{CHANGES}?per_page=3", "changes") for row in part]
    assert [(row["action"], row["test_name"], row["at"]) for row in rows] == [
        ("expired", "u", "2026-09-01T12:03:00Z"),
        ("added", "u", "2026-09-01T12:02:00Z"),
        ("removed", "t", "2026-09-01T12:01:00Z"),
        ("added", "t", "2026-09-01T12:00:00Z"),
    ]
    assert rows[0]["actor"] is None
    actor = rows[1]["actor"]
    assert (actor["type"], actor["name"], {len(actor["id"])}) == ("key", "a bot", {32})
    assert [*rows[3]] == [
        *("at", "action", "quarantine_id", "test_name", "branch", "reason", "source", "actor")
    ]
    assert rows[3]["quarantine_id"] == added.json["id"]


@pytest.mark.parametrize(
    ("scope", "status"),
    [(Scope.READ, 403), (Scope.INGEST, 403), (Scope.QUARANTINE, 201), (Scope.ADMIN, 201)],
)
async def test_the_scope_decides_what_a_key_may_change(
    door: FrontDoor, scope: Scope, status: int
) -> None:
    key = await door.new_key(scope)
    assert (await post(door, key, test_name="t", reason="x")).status == status
    place = f"{QUARANTINES}/{uuid.uuid4()}"
    expected = 403 if status == 403 else 404
    assert (await door.get(place, key=key, method="DELETE")).status == expected


async def test_a_key_for_quarantines_reads_and_sends_nothing(door: FrontDoor, key: str) -> None:
    assert (await door.get(QUARANTINES, key=key)).status == 200
    assert (await door.get(CHANGES, key=key)).status == 200


async def test_another_owner_can_neither_add_nor_remove_nor_see(door: FrontDoor, key: str) -> None:
    foreign = await door.new_key(Scope.ADMIN, owner="umbrella")
    added = await post(door, key, test_name="t", reason="x")
    hidden = await door.get(f"{QUARANTINES}?x", key=foreign)
    for answer in (
        await post(door, foreign, test_name="t", reason="x"),
        await door.get(added.headers["Location"], key=foreign, method="DELETE"),
        await door.get(CHANGES, key=foreign),
    ):
        assert (answer.status, answer.body) == (404, hidden.body)
    assert (await door.get(added.headers["Location"])).status == 200


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, {"test_name", "reason"}),
        ({"test_name": "", "reason": ""}, {"test_name", "reason"}),
        ({"test_name": "t" * 8_001, "reason": "x" * 1_001}, {"test_name", "reason"}),
        ({"test_name": 1, "reason": None}, {"test_name", "reason"}),
        ({"test_name": "t\0", "reason": "x\0"}, {"test_name", "reason"}),
        ({"test_name": "t", "reason": "x", "branch": "*" * 17}, {"branch"}),
        ({"test_name": "t", "reason": "x", "branch": "b" * 2_049}, {"branch"}),
        ({"test_name": "t", "reason": "x", "branch": ""}, {"branch"}),
        ({"test_name": "t", "reason": "x", "owner": "o" * 256}, {"owner"}),
        ({"test_name": "t", "reason": "x", "expires_at": "soon"}, {"expires_at"}),
        ({"test_name": "t", "reason": "x", "expires_at": 7}, {"expires_at"}),
        ({"test_name": "t", "reason": "x", "expires_at": "2026-09-01T12:00:00Z"}, {"expires_at"}),
        ({"test_name": "t", "reason": "x", "expires_at": "2026-09-02T12:00:00"}, {"expires_at"}),
        ({"expires_at": "2026-09-01T12:00:00Z"}, {"test_name", "reason", "expires_at"}),
    ],
)
async def test_every_wrong_member_is_named(
    door: FrontDoor, key: str, body: dict[str, Any], wrong: set[str]
) -> None:
    answer = await post(door, key, **body)
    assert {*answer.wrong_fields} == {("body", name) for name in wrong}
    assert (await door.get(QUARANTINES)).json == {"quarantined_tests": []}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"reason": ""}, "must have 1 to 1,000 characters"),
        ({"reason": None}, "must not be null"),
        ({"reason": 7}, "must be text"),
        ({"reason": "\0"}, "must not hold a NUL character"),
        ({}, "is required"),
    ],
)
async def test_a_reason_that_is_refused_is_no_sentence(
    door: FrontDoor, key: str, body: dict[str, Any], detail: str
) -> None:
    answer = await post(door, key, test_name="t", **body)
    [error] = answer.json["errors"]
    assert (error["field"], error["detail"]) == ("reason", detail)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 2_000])
async def test_what_is_no_object_is_refused(door: FrontDoor, key: str, body: bytes) -> None:
    answer = await door.post(QUARANTINES, body, JSON, key=key)
    assert answer.status == 400


async def test_other_kinds_and_sizes_are_refused(door: FrontDoor, key: str) -> None:
    body = orjson.dumps({"test_name": "t", "reason": "x", "more": "x" * 65_536})
    assert (await door.post(QUARANTINES, body, JSON, key=key)).status == 413
    assert (await door.post(QUARANTINES, b"{}", "text/plain", key=key)).status == 415


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"test_name": "t", "reason": "x"}', "is corrupt"),
        (gzip.compress(b'{"test_name": "t", "reason": "x"}', mtime=0)[:-3], "ends too early"),
        (gzip.compress(b"{", mtime=0) + gzip.compress(b"}", mtime=0), "more than one member"),
    ],
)
async def test_a_body_that_cannot_be_unpacked_is_not_called_too_large(
    door: FrontDoor, key: str, body: bytes, reason: str
) -> None:
    answer = await door.post(QUARANTINES, body, JSON, key=key, Content_Encoding="gzip")
    assert answer.status == 400
    assert reason in answer.json["detail"]


async def test_a_packed_body_that_unpacks_too_large_is_refused(door: FrontDoor, key: str) -> None:
    body = orjson.dumps({"test_name": "t", "reason": "x", "more": "x" * 65_536})
    answer = await door.post(
        QUARANTINES, gzip.compress(body), JSON, key=key, Content_Encoding="gzip"
    )
    assert answer.status == 413


async def test_unknown_members_and_null_are_accepted(door: FrontDoor, key: str) -> None:
    answer = await post(
        door, key, test_name="t", reason="x", branch=None, expires_at=None, severity="high"
    )
    assert answer.status == 201


async def test_other_methods_name_the_allowed_ones(door: FrontDoor, key: str) -> None:
    answer = await door.get(QUARANTINES, key=key, method="PUT")
    assert answer.status == 405
    assert {*answer.headers["Allow"].replace(" ", "").split(",")} == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)
async def test_people_cannot_add_more_than_a_list_can_hold(
    door: FrontDoor, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite.quarantines", "elasticsearch.quarantines"):
        monkeypatch.setattr(f"indexing.store.{module}.MAX_QUARANTINES", 2)
    rules = QuarantineSource.AUTO
    for name in "xyz":
        by_rules = QuarantineRequest(name, "flaky", source=rules)
        await door.store.add_quarantine(WIDGETS, by_rules, NOON)
    # Those that rules made leave as much room as before.
    for name in "ab":
        assert (await post(door, key, test_name=name, reason="x")).status == 201
    assert (await post(door, key, test_name="c", reason="x")).status == 409
    assert (await post(door, key, test_name="a", reason="y")).status == 200
    # Taking one over from the rules makes one more.
    assert (await post(door, key, test_name="z", reason="y")).status == 409


@pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)
async def test_people_cannot_add_more_of_one_test_than_a_load_can_judge(
    door: FrontDoor, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite.quarantines", "elasticsearch.quarantines"):
        monkeypatch.setattr(f"indexing.store.{module}.MAX_QUARANTINES_PER_TEST", 2)
    for branch in ("main", "release/*"):
        assert (await post(door, key, test_name="t", reason="x", branch=branch)).status == 201
    refused = await post(door, key, test_name="t", reason="x")
    assert refused.status == 409
    assert "the test has" in refused.json["detail"]
    assert (await post(door, key, test_name="t", reason="y", branch="main")).status == 200
    assert (await post(door, key, test_name="u", reason="x")).status == 201
