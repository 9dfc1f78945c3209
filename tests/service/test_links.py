"""The links of a page: whose address they have, what they repeat, and how long they last."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.settings import Settings
from tests.builders import after, load_names, make_event
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, QUARANTINES, SEARCH, FrontDoor


async def fill(door: FrontDoor) -> None:
    door.clock.now = after(hours=1)
    await door.store.write_events([make_event(number) for number in range(5)])


async def test_links_repeat_the_callers_parameters_in_their_order(door: FrontDoor) -> None:
    await fill(door)
    first = await door.get(f"{LOGS}?since=a&per_page=2&b%2Ba=%C3%A9+x&since=b&flag&pull%5Frequest=")
    assert first.status == 422
    asked = "since=a&per_page=2&b%2Ba=%C3%A9+x&since=b&flag"
    first = await door.get(f"{LOGS}?{asked}")
    assert all(url.startswith(f"{door.base}{LOGS}?{asked}&cursor=") for url in first.links.values())
    assert [*first.links] == ["first", "next", "last"]


async def test_the_cursor_is_replaced_where_it_stands(door: FrontDoor) -> None:
    await fill(door)
    first = await door.get(f"{LOGS}?per_page=2")
    cursor = first.links["next"].partition("cursor=")[2]
    second = await door.get(f"{LOGS}?a=1&c%75rsor={cursor}&per_page=2")
    assert [*second.links] == ["first", "prev", "next", "last"]
    for url in second.links.values():
        assert url.startswith(f"{door.base}{LOGS}?a=1&cursor=")
        assert url.endswith("&per_page=2")
        assert cursor not in url


async def test_nothing_that_was_sent_breaks_out_of_a_link(door: FrontDoor) -> None:
    await fill(door)
    answer = await door.get(f'{LOGS}?x=">,<{door.base}/evil>;rel="next"&per_page=2')
    assert [*answer.links] == ["first", "next", "last"]
    assert all("%22%3E,%3C" in url for url in answer.links.values())


@pytest.mark.parametrize("public_url", ["https://ci.example", "https://ci.example:8443/merge"])
async def test_links_are_built_from_the_public_url(tmp_path: Path, public_url: str) -> None:
    async for door in open_door(Settings(data_dir=tmp_path, public_url=public_url)):
        await fill(door)
        answer = await door.get(f"{LOGS}?per_page=2", Host="not a host")
        assert all(
            url.startswith(f"{public_url}{LOGS}?per_page=2&cursor=")
            for url in answer.links.values()
        )


async def test_without_a_public_url_they_are_built_from_the_host_header(door: FrontDoor) -> None:
    for host in ("ci.example", "ci.example:81", "[::1]:8080", "127.0.0.1"):
        answer = await door.get(LOGS, Host=host)
        assert answer.links["first"].startswith(f"http://{host}{LOGS}?cursor=")


@pytest.mark.parametrize("host", ["", "a b", "a/b", "user@a", "a>b", "a?b", "[::1", "a:x", "a:1:2"])
async def test_a_host_that_is_none_is_a_bad_request(door: FrontDoor, host: str) -> None:
    assert (await door.get(LOGS, Host=host)).status == 400


@pytest.mark.parametrize("target", [LOGS, f"{SEARCH}?test_name=*", f"{QUARANTINES}?per_page=5"])
async def test_an_empty_list_has_no_page_before_or_after_it(door: FrontDoor, target: str) -> None:
    assert [*(await door.get(target)).links] == ["first", "last"]


async def test_a_cursor_belongs_to_one_operation_and_one_repository(door: FrontDoor) -> None:
    await fill(door)
    await load_names(door.store, ["a", "b"])
    logs = (await door.get(f"{LOGS}?per_page=2")).links["next"].rpartition("cursor=")[2]
    for target in (
        f"{SEARCH}?test_name=*&cursor={logs}",
        f"{QUARANTINES}?cursor={logs}",
        f"{LOGS.replace('widgets', 'gadgets')}?cursor={logs}",
    ):
        assert (await door.get(target)).wrong_fields == [("query", "cursor")]
    shouted = LOGS.replace("acme/widgets", "ACME/Widgets")
    assert (await door.get(f"{shouted}?cursor={logs}")).status == 200


async def test_a_cursor_survives_a_restart(tmp_path: Path) -> None:
    following = ""
    async for door in open_door(Settings(data_dir=tmp_path)):
        await fill(door)
        url = (await door.get(f"{LOGS}?per_page=2")).links["next"]
        following = url.removeprefix(door.base)
    async for door in open_door(Settings(data_dir=tmp_path)):
        answer = await door.get(following)
        assert [event["id"] for event in answer.json["events"]] == [2, 1]


async def test_another_store_under_the_same_secret_answers_with_a_conflict(tmp_path: Path) -> None:
    following = ""
    for name, status in (("one", 200), ("two", 409)):
        async for door in open_door(Settings(data_dir=tmp_path / name, secret="shared")):
            await fill(door)
            if not following:
                url = (await door.get(f"{LOGS}?per_page=2")).links["next"]
                following = url.removeprefix(door.base)
            answer = await door.get(following)
            assert answer.status == status
            if status == 409:
                assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_cursor_of_another_secret_is_refused(tmp_path: Path) -> None:
    following = ""
    for secret in ("one", "two", None):
        async for door in open_door(Settings(data_dir=tmp_path, secret=secret)):
            await fill(door)
            if following:
                answer = await door.get(following)
                assert answer.wrong_fields == [("query", "cursor")]
            url = (await door.get(f"{LOGS}?per_page=2")).links["next"]
            following = url.removeprefix(door.base)


async def test_links_that_would_be_too_long_together_are_fields_of_their_own(
    door: FrontDoor,
) -> None:
    await load_names(door.store, ["a", "b", "c"])
    long = f"{SEARCH}?test_name=*&per_page=1&sort=test_name&job_name_exclude={'x' * 2_000}"
    middle = await door.get((await door.get(long)).links["next"])
    fields = middle.headers.getall("Link")
    assert [*middle.links] == ["first", "prev", "next", "last"]
    assert len(fields) == 4
    assert max(map(len, fields)) < 8_000
    for url in middle.links.values():
        assert (await door.get(url)).status == 200
