"""The links of a page: their base URL, the parameters they repeat, and how long they are valid."""

from __future__ import annotations

import asyncio
import http.client
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from service.config.settings import Settings
from tests.builders import (
    NOON,
    WIDGETS,
    after,
    load_names,
    make_event,
    make_executions,
    make_run,
)
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, QUARANTINES, SEARCH, TESTS, FrontDoor
from tests.service.wire import Wire


async def fill(door: FrontDoor) -> None:
    door.clock.now = after(hours=1)
    await door.store.write_events([make_event(number) for number in range(5)])


async def test_links_repeat_the_callers_parameters_in_their_order(door: FrontDoor) -> None:
    await fill(door)
    asked = "event%5Ftype=action.rebase&per_page=2&event_type=action.merge"
    assert (await door.get(f"{LOGS}?{asked}&pull%5Frequest=")).status == 422
    first = await door.get(f"{LOGS}?{asked}")
    assert all(url.startswith(f"{door.base}{LOGS}?{asked}&cursor=") for url in first.links.values())
    assert [*first.links] == ["first", "next", "last"]


async def test_links_repeat_no_parameter_that_the_operation_does_not_have(door: FrontDoor) -> None:
    await fill(door)
    await load_names(door.store, ["a", "b", "c"])
    for target in (f"{LOGS}?per_page=2", f"{SEARCH}?test_name=*&per_page=2"):
        plain = await door.get(target)
        longer = await door.get(f"{target}&since=a&b%2Ba=%C3%A9+x&flag&&={'&x' * 3_000}")
        assert {*plain.links} == {*longer.links} == {"first", "next", "last"}
        for relation, url in longer.links.items():
            assert url.partition("cursor=")[0] == plain.links[relation].partition("cursor=")[0]


async def test_the_cursor_is_replaced_where_it_stands(door: FrontDoor) -> None:
    await fill(door)
    of_all = "event_type=action.rebase"
    cursor = (await door.get(f"{LOGS}?per_page=2&{of_all}")).links["next"].partition("cursor=")[2]
    second = await door.get(f"{LOGS}?{of_all}&c%75rsor={cursor}&per_page=2")
    assert [*second.links] == ["first", "prev", "next", "last"]
    for url in second.links.values():
        assert url.startswith(f"{door.base}{LOGS}?{of_all}&cursor=")
        assert url.endswith("&per_page=2")
        assert cursor not in url


async def test_nothing_that_was_sent_breaks_out_of_a_link(door: FrontDoor) -> None:
    await fill(door)
    await load_names(door.store, ["a", "b", "c"])
    evil = f'">,<{door.base}/evil>;rel="next"'
    answer = await door.get(f"{SEARCH}?test_name=*&per_page=2&job_name_exclude={evil}")
    assert [*answer.links] == ["first", "next", "last"]
    assert all("%22%3E,%3C" in url for url in answer.links.values())


@pytest.mark.parametrize("public_url", ["https://ci.example", "https://ci.example:8443/merge"])
async def test_links_are_built_from_the_public_url(tmp_path: Path, public_url: str) -> None:
    async for door in open_door(Settings(data_dir=tmp_path, public_url=public_url)):
        await fill(door)
        answer = await door.get(f"{LOGS}?per_page=2", Host="not a host")
        assert [*answer.links] == ["first", "next", "last"]
        assert all(
            url.startswith(f"{public_url}{LOGS}?per_page=2&cursor=")
            for url in answer.links.values()
        )


async def test_without_a_public_url_they_are_built_from_the_host_header(door: FrontDoor) -> None:
    for host in ("ci.example", "ci.example:81", "[::1]:8080", "127.0.0.1"):
        answer = await door.get(LOGS, Host=host)
        assert answer.links["first"].startswith(f"http://{host}{LOGS}?cursor=")


@pytest.mark.parametrize("host", ["ci.example:81", "[::1]:8080"])
async def test_the_host_of_a_whole_url_counts_more_than_the_header(
    door: FrontDoor, host: str
) -> None:
    wire = await Wire.open(door)
    # The header is `Host: a`.
    for _ in range(3):
        status, fields, _ = await wire.ask(wire.head(f"http://{host}{LOGS}"))
        assert status == 200
        assert fields["link"].startswith(f"<http://{host}{LOGS}?cursor=")
    await wire.close()


@pytest.mark.parametrize("host", ["not!a!host", "user:secret@", "a" * 256])
async def test_a_whole_url_without_a_usable_host_is_refused(door: FrontDoor, host: str) -> None:
    wire = await Wire.open(door)
    status, _, body = await wire.ask(wire.head(f"http://{host}{LOGS}"))
    assert status == 400
    assert b"secret" not in body
    await wire.close()


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
            # What is wrong from the request alone comes first.
            wrong = await door.get(following.replace("per_page=2", "per_page=0"))
            assert wrong.wrong_fields == [("query", "per_page")]
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


def search_of(size: int, name: str = "*", sort: str = "test_name") -> str:
    """Return a search with one row per page, whose target has exactly this many bytes."""
    target = f"{SEARCH}?per_page=1&sort={sort}&direction=asc&test_name={name}"
    while (left := size - len(target)) > 2_000:
        target += f"&job_name_exclude={'x' * (1_500 + len(target) % 7)}"
    return f"{target}&job_name={'j' * (left - len('&job_name='))}"


def lengthen(target: str, field: str) -> str:
    """Return the target with that field again and again, up to the longest that is accepted."""
    while (left := 8_000 - len(target)) > 260:
        target += f"&{field}={'x' * 200}"
    target += f"&{field}={'x' * (left - len(f'&{field}='))}"
    assert len(target) == 8_000
    return target


# Four links need more than one header, or exceed what a client accepts for all headers.
@pytest.mark.parametrize(
    ("size", "sort"),
    [
        *((size, "test_name") for size in (300, 1_900, 2_100, 3_400, 3_700, 4_600, 5_000, 7_000)),
        *((size, sort) for size in (7_916, 8_000) for sort in ("test_name", "failure_ratio")),
    ],
)
async def test_a_list_of_any_target_is_walked_by_its_links(
    door: FrontDoor, size: int, sort: str
) -> None:
    target = search_of(size, sort=sort)
    job = target.rpartition("=")[2]
    names = [f"{'long' * 100}.{number}" for number in range(4)]
    await load_names(door.store, names, make_run(job=job))
    assert len(target) == size
    found, url = [], target
    for relation in ("next", "prev"):
        found.append((await door.get(url)).json["tests"][0]["test_name"])
        while following := (await door.get(url)).links.get(relation):
            url = following
            found.append((await door.get(url)).json["tests"][0]["test_name"])
    assert found == [*names, *reversed(names)]


async def test_names_that_a_cursor_has_room_for_are_walked_with_the_longest_target(
    door: FrontDoor,
) -> None:
    names = [f"{'long' * 100}.{number}" for number in range(3)]
    await load_names(door.store, names)
    target = f"{SEARCH}?per_page=1&sort=test_name&direction=asc&test_name=*"
    pages = await door.walk(lengthen(target, "job_name_exclude"), "tests")
    assert [row["test_name"] for page in pages for row in page] == names


async def test_a_link_that_is_too_long_with_the_public_url_is_refused(tmp_path: Path) -> None:
    public_url = f"https://ci.example/{'p' * 200}"
    async for door in open_door(Settings(data_dir=tmp_path, public_url=public_url)):
        assert (await door.get(search_of(7_500))).status == 200
        assert (await door.get(search_of(8_000))).status == 414


async def test_executions_of_the_longest_target_are_walked(door: FrontDoor) -> None:
    for number in range(3):
        run = make_run(f"{number}", commit=f"c{number}")
        executions = make_executions(run, [("t", Conclusion.PASSED)], after(hours=-1 - number))
        await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)
    target = f"{TESTS}/{derive_test_id(WIDGETS, 't')}/executions?per_page=1&branch=main"
    pages = await door.walk(lengthen(target, "branch"), "executions")
    assert [row["run_id"] for page in pages for row in page] == ["0", "1", "2"]


async def test_the_links_of_the_longest_target_fit_common_clients(door: FrontDoor) -> None:
    target = search_of(8_000)
    names = [f"{'long' * 100}.{number}" for number in range(3)]
    await load_names(door.store, names, make_run(job=target.rpartition("=")[2]))
    first = await door.get(target)
    middle = await door.get(first.links["next"])
    for answer in (first, middle):
        fields = answer.headers.getall("Link")
        assert max(map(len, fields)) + len("Link") <= 8_190
        assert sum(len(name) + len(value) + 4 for name, value in answer.headers.items()) < 16_384
    address = urlsplit(door.base)

    def read() -> tuple[int, str | None]:
        with closing(http.client.HTTPConnection(address.netloc)) as client:
            client.request("GET", target, headers={"Authorization": f"Bearer {door.key}"})
            answer = client.getresponse()
            return answer.status, answer.getheader("Link")

    assert await asyncio.to_thread(read) == (200, ", ".join(first.headers.getall("Link")))


async def test_of_many_long_links_those_that_lead_on_are_kept(door: FrontDoor) -> None:
    target = search_of(5_000)
    await load_names(door.store, ["a", "b", "c"], make_run(job=target.rpartition("=")[2]))
    first = await door.get(target)
    assert [*first.links] == ["first", "next"]
    middle = await door.get(first.links["next"])
    assert [*middle.links] == ["prev", "next"]
    last = await door.get(middle.links["next"])
    assert [*last.links] == ["first", "prev"]
    longest = search_of(7_900)
    await load_names(door.store, ["a", "b", "c"], make_run(job=longest.rpartition("=")[2]))
    middle = await door.get((await door.get(longest)).links["next"])
    assert [*middle.links] == ["next"]


async def test_what_grows_too_long_when_it_is_encoded_is_refused(door: FrontDoor) -> None:
    raw = f"{SEARCH}?test_name=a&" + "&".join(f"job_name={'<' * 1_200}{n}" for n in range(3))
    assert len(raw) < 8_000
    answer = await door.get(raw)
    assert answer.status == 414
    little = search_of(7_990, "<" * 6)
    assert len(little) + 2 * 6 == 8_002
    assert (await door.get(little)).status == 414
