"""The client, over a real service and over servers that are none."""

from __future__ import annotations

import asyncio
import threading

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict

from indexing.ingest.lines import MAX_LINE_BYTES
from indexing.models.quarantines import QuarantineRequest
from mergewatch.client import (
    AsyncClient,
    Client,
    ForeignServiceError,
    ProblemError,
    UnreachableError,
    transport,
)
from mergewatch.client.requests import encode_query
from service.handlers.event_stream import EVENT_STREAMS
from service.schemas.limits import MAX_PER_PAGE
from service.server.listener import http_url
from service.server.process import bind
from tests.builders import NOON, WIDGETS, after, make_event
from tests.client.serving import NAMES, REPOSITORY, TOKEN, answer, serving
from tests.service.front_door import FrontDoor
from tests.waiting import until


async def test_a_search_walks_all_pages(client: AsyncClient) -> None:
    rows = [row async for row in client.search_tests(REPOSITORY, sort="test_name")]
    assert sorted(row["test_name"] for row in rows) == sorted(NAMES)
    assert len(rows) == len(NAMES)


async def test_a_list_can_be_walked_twice_and_by_pages(client: AsyncClient) -> None:
    rows = client.search_tests(REPOSITORY, ["suite.*", "none"], per_page=90)
    sizes = [len(page) async for page in rows.pages()]
    assert sizes == [90, 90, 70]
    assert [row async for row in rows] == [row async for row in rows]


async def test_one_test_is_read_by_its_id(client: AsyncClient) -> None:
    name = NAMES[0]
    found = [row async for row in client.search_tests(REPOSITORY, name)]
    # `?` is any one character, so the name matches itself alone.
    (row,) = found
    detail = await client.get_test(REPOSITORY, row["test_id"])
    assert (detail["test_name"], detail["health_status"]) == (name, "broken")


async def test_quarantines_are_listed_and_read(door: FrontDoor, client: AsyncClient) -> None:
    for minutes, name in enumerate(NAMES[:3]):
        request = QuarantineRequest(name, "x", branch="a/b")
        await door.store.add_quarantine(WIDGETS, request, after(minutes=minutes))
    rows = [row async for row in client.list_quarantines(REPOSITORY, branch="a/b", per_page=2)]
    assert [row["test_name"] for row in rows] == NAMES[:3]
    assert await client.get_quarantine(REPOSITORY, rows[0]["id"]) == rows[0]


async def test_a_quarantine_is_added_and_removed(door: FrontDoor, client: AsyncClient) -> None:
    added = await client.add_quarantine(
        REPOSITORY, NAMES[0], "flaps", branch="release/*", owner="mona", expires_at=after(days=9)
    )
    assert (await client.get_quarantine(REPOSITORY, added["id"]))["branch"] == "release/*"
    assert "warning" in await client.add_quarantine(REPOSITORY, "unknown", "x")
    await client.remove_quarantine(REPOSITORY, added["id"])
    rows = [row async for row in client.list_quarantine_changes(REPOSITORY, per_page=1)]
    assert sorted(row["action"] for row in rows) == ["added", "added", "removed"]
    with pytest.raises(ProblemError, match="404"):
        await client.remove_quarantine(REPOSITORY, added["id"])


async def test_events_are_sent_and_read(client: AsyncClient) -> None:
    events = [make_event(number, pull_request=number % 2) for number in range(3)]
    lines = b"\n".join(bytes(event.body) for event in events) + b"\nno event\n"
    intake = await client.send_events(REPOSITORY, lines)
    assert (intake["read"], intake["refused"], intake["refusals"][0]["line"]) == (4, 1, 4)
    rows = [
        row
        async for row in client.list_events(
            REPOSITORY, pull_request=[0, 7], received_from=NOON, received_to="2026-09-02T00:00:00Z"
        )
    ]
    assert [row["id"] for row in rows] == [2, 0]


async def test_the_plain_client_does_the_same_in_a_thread(door: FrontDoor) -> None:
    def use() -> tuple[list[str], str]:
        with Client(door.base, door.key) as plain:
            names = [row["test_name"] for row in plain.search_tests(REPOSITORY, sort="test_name")]
            row = next(iter(plain.search_tests(REPOSITORY, NAMES[7])))
            return names, plain.get_test(REPOSITORY, row["test_id"])["test_name"]

    names, name = await asyncio.to_thread(use)
    assert sorted(names) == sorted(NAMES)
    assert name == NAMES[7]


async def test_a_closed_plain_client_leaves_no_thread(door: FrontDoor) -> None:
    def use() -> bool:
        plain = Client(door.base, door.key)
        plain.close()
        plain.close()
        return plain.is_running

    assert not await asyncio.to_thread(use)


def test_a_plain_client_of_a_malformed_url_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="Invalid IPv6 URL"):
        Client("http://[::1", TOKEN)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "ftp://mergewatch.example",
        "https://",
        "https://user:hush@mergewatch.example",
        "https://mergewatch.example?x=hush",
        "https://mergewatch.example#hush",
    ],
)
async def test_a_url_without_a_service_is_refused_at_once_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="the URL must be http or https") as refused:
        AsyncClient(url, TOKEN)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("token", ["", "mw_hush\n", "mw_hush\u00e9"])
def test_a_token_that_no_header_can_carry_is_refused_at_once_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="the token must be printable ASCII") as refused:
        Client("http://127.0.0.1:1", token)
    assert "hush" not in str(refused.value)


async def test_other_threads_get_an_error_when_a_plain_client_is_closed(door: FrontDoor) -> None:
    plain = Client(door.base, door.key)
    events = plain.follow_events(REPOSITORY)
    waiting = asyncio.create_task(asyncio.to_thread(next, events))
    await until(lambda: door.app[EVENT_STREAMS].open == 1)
    await asyncio.to_thread(plain.close)
    for work in (waiting, asyncio.to_thread(list, plain.list_quarantines(REPOSITORY))):
        with pytest.raises(RuntimeError, match="the client is closed"):
            await work


async def test_a_plain_client_knows_where_a_stream_began(door: FrontDoor) -> None:
    await door.store.write_events([make_event(0)])
    plain = Client(door.base, door.key)
    events = plain.follow_events(REPOSITORY)
    assert events.last_id is None
    waiting = asyncio.create_task(asyncio.to_thread(next, events))
    await until(lambda: events.last_id is not None)
    resumed = plain.follow_events(REPOSITORY, events.last_id)
    await door.store.write_events([make_event(1)])
    first = await waiting
    assert first.event["id"] == 1
    assert await asyncio.to_thread(next, resumed) == first
    for each in (events, resumed):
        each.close()
        assert list(each) == []
    await asyncio.to_thread(plain.close)


async def test_integers_of_any_size_are_exact() -> None:
    number = int("7" * 400)
    page = f'{{"size": 1, "per_page": 1, "events": [{{"metadata": {{"n": {number}}}}}]}}'
    async with serving(answer(200, page)) as (client, _):
        (row,) = [row async for row in client.list_events(REPOSITORY)]
    assert row["metadata"]["n"] == number


async def test_a_signal_handler_may_close_a_plain_client(door: FrontDoor) -> None:
    def use() -> None:
        plain = Client(door.base, door.key)
        # A handler runs in the thread that it interrupts.
        with plain._lock:
            plain.close()
        assert not plain.is_running

    await asyncio.wait_for(asyncio.to_thread(use), 20)


async def test_links_in_several_fields_are_followed() -> None:
    first = CIMultiDict([("Link", '<?cursor=0>; rel="first"'), ("Link", '<?cursor=2>; rel="next"')])
    page = '{"size": 1, "per_page": 1, "repository": "x", "tests": [{"test_name": "%s"}]}'
    answers = [
        lambda _: web.Response(text=page % "a", headers=first, content_type="application/json"),
        answer(200, page % "b"),
    ]
    async with serving(*answers) as (client, requests):
        rows = [row["test_name"] async for row in client.search_tests(REPOSITORY)]
    assert (rows, requests[1].query_string) == (["a", "b"], "cursor=2")


async def test_a_refusal_names_status_fields_and_request(client: AsyncClient) -> None:
    with pytest.raises(ProblemError) as refused:
        await anext(client.list_events(REPOSITORY, per_page=0).pages())
    assert refused.value.status == 422
    assert [error.field for error in refused.value.errors] == ["per_page"]
    assert "per_page: must be" in str(refused.value)
    assert refused.value.request_id


async def test_a_repository_without_its_owner_is_refused_before_it_is_sent() -> None:
    async with AsyncClient("http://127.0.0.1:1", TOKEN) as client:
        for wrong in ("widgets", "/widgets", "acme/", "a/b/c"):
            with pytest.raises(ValueError, match="owner/repository"):
                await client.get_test(wrong, "x")


def test_several_values_repeat_their_parameter_whatever_they_come_in() -> None:
    for values in (["a", "b"], ("a", "b"), {"a": 1, "b": 2}.keys(), iter("ab")):
        assert encode_query({"test_name": values, "sort": None}) == "test_name=a&test_name=b"
    assert sorted(encode_query({"x": {1, 2}}).split("&")) == ["x=1", "x=2"]
    with pytest.raises(TypeError, match="b'a' is not text"):
        encode_query({"test_name": b"a"})


async def test_text_that_is_not_unicode_is_refused_before_it_is_sent() -> None:
    async with AsyncClient("http://127.0.0.1:1", TOKEN) as client:
        for work in (
            client.count_tests(REPOSITORY, "\udcff"),
            client.get_test(REPOSITORY, "\udcff"),
            client.add_quarantine(REPOSITORY, "\udcff", "x"),
            client.add_quarantine(REPOSITORY, "x", "x", branch="\udcff"),
        ):
            with pytest.raises(ValueError, match="surrogates not allowed"):
                await work


async def test_a_path_cannot_leave_its_place(door: FrontDoor, client: AsyncClient) -> None:
    with pytest.raises(ProblemError) as refused:
        await client.get_test(REPOSITORY, "../../../../../metrics?")
    assert refused.value.status == 422
    assert refused.value.errors[0].field == "test_id"


async def test_the_next_page_is_read_from_the_same_server() -> None:
    link = '<https://elsewhere.example/v1/other?cursor=x%26y&per_page=2>; rel="next"'
    pages = answer(200, '{"tests": [{}]}', Link=link), answer(200, '{"tests": []}')
    async with serving(*pages) as (client, requests):
        assert len([row async for row in client.search_tests(REPOSITORY)]) == 1
    path = "/v1/ci/acme/repositories/widgets/search/tests"
    assert requests[1].raw_path == f"{path}?cursor=x%26y&per_page=2"


async def test_a_page_that_links_to_itself_ends_the_walk() -> None:
    page = answer(200, '{"tests": [{}]}', Link='<?per_page=100&test_name=%2A>; rel="next"')
    async with serving(page) as (client, requests):
        assert len([row async for row in client.search_tests(REPOSITORY)]) == 1
    assert len(requests) == 1


TEST = answer(200, '{"test_id": "x"}')


async def test_a_busy_service_is_retried() -> None:
    async with serving(answer(503, Retry_After="3"), answer(429), TEST) as (client, seen):
        assert list(await client.get_test(REPOSITORY, "x")) == ["test_id"]
    assert len(seen) == 3


async def test_the_token_is_in_no_error() -> None:
    problem = f'{{"title": "No {TOKEN}", "detail": "{TOKEN}", "errors": [{{"detail": "{TOKEN}"}}]}}'
    async with serving(answer(422, problem)) as (client, _):
        with pytest.raises(ProblemError) as refused:
            await client.get_test(REPOSITORY, "x")
        assert TOKEN not in f"{refused.value} {vars(refused.value)}"


@pytest.mark.parametrize("body", ["<html>", "[]", '{"tests": 1}', ""])
async def test_a_server_that_is_no_mergewatch_is_named_as_such(body: str) -> None:
    async with serving(answer(200, body)) as (client, _):
        with pytest.raises(ForeignServiceError, match="is not a mergewatch service"):
            await anext(client.search_tests(REPOSITORY).pages())


@pytest.mark.parametrize("body", ["{}", '{"groups": 1}', '{"groups": ["x"]}'])
async def test_json_without_what_every_service_sends_is_of_no_mergewatch(body: str) -> None:
    async with serving(answer(200, body)) as (client, _):
        for work in (
            client.group_tests(REPOSITORY, "job"),
            client.get_test(REPOSITORY, "x"),
            client.get_test_health(REPOSITORY, "x"),
            client.get_failure(REPOSITORY, "x", "y"),
            client.get_stats(REPOSITORY, "executions"),
            client.add_quarantine(REPOSITORY, "x", "y"),
            client.send_events(REPOSITORY, b""),
        ):
            with pytest.raises(ForeignServiceError, match="is not a mergewatch service"):
                await work


@pytest.mark.parametrize(
    "row", ["1", "{}", '{"test_name": "x"}', '{"test_name": [], "reason": ""}']
)
async def test_quarantines_have_the_names_that_decide(row: str) -> None:
    async with serving(answer(200, f'{{"quarantined_tests": [{row}]}}')) as (client, _):
        with pytest.raises(ForeignServiceError, match="is not a mergewatch service"):
            await anext(client.list_quarantines(REPOSITORY).pages())


async def test_the_largest_page_of_events_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert transport.MAX_RESPONSE_BYTES > MAX_PER_PAGE * MAX_LINE_BYTES
    monkeypatch.setattr(transport, "MAX_RESPONSE_BYTES", 1_000)
    async with serving(answer(200, " " * 1_001)) as (client, _):
        with pytest.raises(ForeignServiceError, match=r"a response of more than 1,000 bytes$"):
            await client.get_test(REPOSITORY, "x")


async def test_a_redirect_is_not_followed_with_the_token() -> None:
    target = "https://other.example/?key="
    async with serving(answer(302, Location=target + TOKEN)) as (client, requests):
        with pytest.raises(ProblemError) as failed:
            await client.get_test(REPOSITORY, "x")
        assert str(failed.value).endswith(f"302 Found: it redirects to {target}\u2026")
        assert len(requests) == 1


async def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    async def wait(_: float) -> None:
        pass

    with bind("127.0.0.1", 0) as listener:
        url = http_url(listener)
    async with AsyncClient(url, TOKEN, sleep=wait) as client:
        with pytest.raises(UnreachableError, match="cannot be reached") as failed:
            await client.get_test(REPOSITORY, "x")
        assert "\n" not in str(failed.value)
        assert "ssl:default" not in str(failed.value)


async def test_a_server_without_tls_is_named_as_such() -> None:
    async with (
        TestServer(web.Application()) as server,
        AsyncClient(f"https://127.0.0.1:{server.port}", TOKEN) as client,
    ):
        with pytest.raises(UnreachableError, match="TLS failed, does it serve plain HTTP"):
            await client.get_test(REPOSITORY, "x")
