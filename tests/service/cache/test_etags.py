"""Conditional requests get 304; an ETag changes with the body and the links."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.quarantines import QuarantineRequest
from tests.builders import WIDGETS, after, load_names
from tests.service.cache.quarantining import add
from tests.service.front_door import LOGS, QUARANTINES, SEARCH, TEST_STATES, TESTS, FrontDoor

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_client_with_the_current_response_gets_304(door: FrontDoor, method: str) -> None:
    await load_names(door.store, ["hinge"])
    quarantine = await add(door)
    for target in (
        HINGE,
        QUARANTINES,
        f"{QUARANTINES}/{quarantine}",
        f"{QUARANTINES}/changes",
        f"{SEARCH}?test_name=*",
        f"{LOGS}/aggregate?received_from=2026-08-01T00:00:00Z&received_to=2026-08-08T00:00:00Z",
    ):
        whole = await door.get(target, method=method)
        assert whole.status == 200
        for _ in range(2):
            same = await door.get(target, method=method, **{"If-None-Match": whole.headers["ETag"]})
            assert (same.status, same.body) == (304, b"")
            for name in ("ETag", "Cache-Control", "Vary", "Link"):
                assert same.headers.get(name) == whole.headers.get(name)
            assert same.headers["X-Request-Id"]
        other = await door.get(target, method=method, **{"If-None-Match": '"other"'})
        assert (other.status, other.body) == (200, whole.body)
        assert other.headers["Content-Length"] == whole.headers["Content-Length"]


async def test_a_changed_answer_has_another_tag(door: FrontDoor) -> None:
    empty = await door.get(QUARANTINES)
    await add(door)
    changed = await door.get(QUARANTINES, **{"If-None-Match": empty.headers["ETag"]})
    assert changed.status == 200
    assert changed.headers["ETag"] != empty.headers["ETag"]


async def test_a_page_that_got_another_one_behind_it_has_another_tag(door: FrontDoor) -> None:
    await load_names(door.store, ["a"])
    await add(door, "a")
    door.clock.now = after(hours=1)
    # Orders in which a new row comes after the existing ones.
    targets = (
        f"{SEARCH}?test_name=*&per_page=1&sort=test_name&direction=asc",
        f"{QUARANTINES}?per_page=1",
        f"{TEST_STATES}?per_page=1",
    )
    alone = [await door.get(target) for target in targets]
    await load_names(door.store, ["b"])
    made = QuarantineRequest("b", "flaps")
    await door.store.add_quarantine(WIDGETS, made, after(minutes=30))
    for target, one in zip(targets, alone, strict=True):
        assert "next" not in one.links
        followed = await door.get(target, **{"If-None-Match": one.headers["ETag"]})
        assert followed.status == 200
        assert followed.body == one.body
        following = await door.get(followed.links["next"])
        assert following.links["prev"]
        same = await door.get(target, **{"If-None-Match": followed.headers["ETag"]})
        assert same.status == 304
        assert same.links == followed.links


async def test_the_etag_covers_the_links_as_they_are_sent(door: FrontDoor) -> None:
    await load_names(door.store, ["a"])
    target = f"{SEARCH}?test_name=*"
    tags = [
        (await door.get(url, **headers)).headers["ETag"]
        for url, headers in (
            (target, {}),
            (target, {"Host": "other.example"}),
            (f"{target}&per_page=10", {}),
            (f"{target}&unknown=1", {}),
        )
    ]
    assert len(set(tags)) == 3
    assert tags[3] == tags[0]
