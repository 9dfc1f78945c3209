"""The headers of every response: for browsers, caches, and cross-origin pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.config.settings import Settings
from service.http.response_headers import RESPONSE_HEADERS
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, Answer, FrontDoor, operations

PAGE = "https://pages.example"
TARGETS = {
    **operations(),
    "nowhere": "/nothing",
    "wrong": f"{LOGS}?per_page=0",
    "absent": operations("nobody", "nothing")["events"],
    "health": "/health/live",
    "openapi": "/openapi.json",
}


@pytest.fixture
async def open_to_pages(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(Settings(data_dir=tmp_path, cors_origins=(PAGE,))):
        yield opened


def of_cors(answer: Answer) -> list[str]:
    return [name for name in answer.headers if name.startswith("Access-Control-")]


@pytest.mark.parametrize("name", TARGETS)
async def test_every_response_says_how_a_browser_has_to_treat_it(
    shared_door: FrontDoor, name: str
) -> None:
    # The second response may come from the cache.
    for _ in range(2):
        headers = (await shared_door.get(TARGETS[name])).headers
        assert {known: headers.getall(known) for known in RESPONSE_HEADERS} == {
            known: [value] for known, value in RESPONSE_HEADERS.items()
        }
        assert "aiohttp" not in str(headers)
        assert "Python" not in str(headers)


@pytest.mark.parametrize("target", ["/", "/ui/", "/ui/sign-in", "/ui/_/style.css", "/ui/nowhere"])
async def test_no_header_of_every_response_is_missing_in_the_dashboard(
    shared_door: FrontDoor, target: str
) -> None:
    headers = (await shared_door.get(target)).headers
    assert {name: len(headers.getall(name, ())) for name in RESPONSE_HEADERS} == dict.fromkeys(
        RESPONSE_HEADERS, 1
    )


async def test_bytes_that_are_not_http_get_the_headers_too(shared_door: FrontDoor) -> None:
    answer = await shared_door.ask("/", {"X-Long": "a" * 300_000})
    assert answer.status == 400
    assert answer.headers.getall("Server") == ["mergewatch"]
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("name", operations())
async def test_answers_are_for_one_credential_and_refusals_for_one_request(
    shared_door: FrontDoor, name: str
) -> None:
    good = await shared_door.get(operations()[name])
    refused = await shared_door.ask(operations()[name], {})
    if good.status == 200:
        assert good.headers["Cache-Control"].startswith("private")
        assert good.headers["Vary"] == "Authorization"
    assert refused.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("name", TARGETS)
async def test_no_page_elsewhere_may_read_unless_the_operator_says_so(
    shared_door: FrontDoor, name: str
) -> None:
    assert of_cors(await shared_door.get(TARGETS[name], Origin=PAGE)) == []
    asked = await shared_door.get(LOGS, method="OPTIONS", Origin=PAGE)
    assert asked.status == 405


async def test_a_page_of_a_named_origin_may_read(open_to_pages: FrontDoor) -> None:
    for _ in range(2):
        for target in operations().values():
            answer = await open_to_pages.get(target, Origin=PAGE)
            assert answer.headers["Access-Control-Allow-Origin"] == PAGE
            assert "Link" in answer.headers["Access-Control-Expose-Headers"]
            assert "Origin" in answer.headers.getall("Vary")
            assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_a_page_that_polls_may_read_every_answer(open_to_pages: FrontDoor) -> None:
    # The last ones need no parser: the service knows their bytes.
    for _ in range(8):
        answer = await open_to_pages.get(operations()["quarantines"], Origin=PAGE)
        assert answer.headers["Access-Control-Allow-Origin"] == PAGE
        assert "Origin" in answer.headers.getall("Vary")


@pytest.mark.parametrize("origin", ["https://other.example", f"{PAGE}.other.example", "null", ""])
async def test_a_page_of_any_other_origin_may_not(open_to_pages: FrontDoor, origin: str) -> None:
    answer = await open_to_pages.get(operations()["quarantines"], Origin=origin)
    assert answer.status == 200
    assert of_cors(answer) == []
    assert "Origin" in answer.headers.getall("Vary")


async def test_a_preflight_needs_no_credential_and_lets_nothing_be_written(
    open_to_pages: FrontDoor,
) -> None:
    headers = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    answer = await open_to_pages.ask(LOGS, headers, "OPTIONS")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, HEAD"
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert answer.headers["X-Request-Id"]
    foreign = await open_to_pages.ask(LOGS, {**headers, "Origin": "https://a.example"}, "OPTIONS")
    assert foreign.status == 405


async def test_all_pages_may_read_where_the_operator_says_all(tmp_path: Path) -> None:
    async for door in open_door(Settings(data_dir=tmp_path, cors_origins=("*",))):
        answer = await door.get(operations()["quarantines"], Origin="https://any.example")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers.getall("Vary") == ["Authorization"]


FORWARDED = {
    "Forwarded": "for=6.6.6.6;host=evil.example;proto=https",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Prefix": "/evil",
    "X-Forwarded-For": "6.6.6.6",
    "X-Original-URL": "/evil",
}


@pytest.mark.parametrize("name", TARGETS)
async def test_forwarded_headers_have_no_effect(shared_door: FrontDoor, name: str) -> None:
    plain = await shared_door.get(TARGETS[name])
    forwarded = await shared_door.get(TARGETS[name], **FORWARDED)
    assert forwarded.body == plain.body
    assert forwarded.status == plain.status
    assert forwarded.links.keys() == plain.links.keys()
    assert "evil" not in str(forwarded.headers)
