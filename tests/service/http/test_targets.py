"""Request targets: the length limit, and the low cost of refusing longer ones."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from service.config.settings import Settings
from service.http.query_string import load, name_ignored, split
from service.http.targets import CURSOR_BYTES, MAX_PARSED_BYTES, MAX_TARGET_BYTES, is_too_long
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.response_cache import RESPONSE_CACHE
from service.schemas.queries import TestsQuery
from tests.growth import assert_linear
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor, operations
from tests.service.http.messages import Message

SCHEMA = TestsQuery()
KINDS = ["a", "%61", "a&"]


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(Settings(data_dir=tmp_path, ingest=True)):
        yield opened


def padded(target: str, size: int, kind: str = "a") -> str:
    """Return a target with this number of bytes."""
    target += ("&" if "?" in target else "?") + "x="
    left = size - len(target)
    filling = kind * (left // len(kind.encode()))
    return target + filling + "a" * (left - len(filling.encode()))


async def talk(door: FrontDoor, *requests: tuple[str, str]) -> list[Message]:
    """Send requests (method, target) over one connection; read all the responses."""
    address = urlsplit(door.base)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    answers = []
    for method, target in requests:
        head = f"{method} {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {door.key}\r\n"
        body = "Content-Length: 2\r\n\r\n{}" if method == "POST" else "\r\n"
        writer.write((head + body).encode())
        head_of = (await reader.readuntil(b"\r\n\r\n"))[:-4]
        answer = Message(head_of, b"")
        if method != "HEAD":
            answer.body = await reader.readexactly(int(answer.value("content-length") or 0))
        answers.append(answer)
    writer.close()
    await writer.wait_closed()
    return answers


def assert_too_long(answer: Message, method: str = "GET") -> None:
    assert answer.status.startswith("HTTP/1.1 414 ")
    assert answer.value("content-type") == "application/problem+json"
    assert answer.value("x-request-id")
    if method != "HEAD":
        document = orjson.loads(answer.body)
        assert (document["status"], document["title"]) == (414, "URI too long")
        assert "8000" in document["detail"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", operations())
async def test_a_target_of_8000_bytes_is_answered_and_a_longer_one_is_not(
    embedded: FrontDoor, name: str, kind: str
) -> None:
    target = operations()[name]
    plain, longest, longer, again = await talk(
        embedded,
        ("GET", target),
        ("GET", padded(target, MAX_TARGET_BYTES, kind)),
        ("GET", padded(target, MAX_TARGET_BYTES + 1, kind)),
        ("GET", target),
    )
    assert longest.status == plain.status == again.status
    assert_too_long(longer)


@pytest.mark.parametrize("size", [8_001, 8_191, 60_000])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
async def test_a_connection_outlives_a_target_that_is_too_long(
    embedded: FrontDoor, method: str, size: int
) -> None:
    target = "/v1/repos/acme/widgets/logs"
    long = padded(target, size)
    answers = await talk(embedded, *[(method, long)] * 2, ("GET", target))
    for refused in answers[:2]:
        assert_too_long(refused, method)
    assert answers[2].status == "HTTP/1.1 200 OK"


@pytest.mark.parametrize("size", [MAX_PARSED_BYTES + 100, 300_000, 3_000_000])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_a_target_that_is_far_too_long_is_refused_the_same_way(
    embedded: FrontDoor, method: str, size: int
) -> None:
    address = urlsplit(embedded.base)

    def ask() -> tuple[int, dict[str, str], bytes]:
        with closing(http.client.HTTPConnection(address.netloc, timeout=20)) as client:
            client.request(method, padded("/v1/repos/acme/widgets/logs", size))
            answer = client.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    status, headers, body = await asyncio.to_thread(ask)
    assert status == 414
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["X-Request-Id"]
    if method != "HEAD":
        assert orjson.loads(body)["title"] == "URI too long"


async def test_a_refused_target_reaches_neither_the_cache_nor_the_queue(
    embedded: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:

    def touch(*_: object) -> None:
        pytest.fail("a refused request went on")

    monkeypatch.setattr(embedded.app[RESPONSE_CACHE], "_key_of", touch)
    monkeypatch.setattr(embedded.app[ADMISSION_CONTROL], "_find_tenant", touch)
    (answer,) = await talk(embedded, ("GET", padded(operations()["search"], 8_001)))
    assert_too_long(answer)


def test_the_length_limit_allows_for_a_cursor() -> None:
    full = "/" + "a" * (MAX_TARGET_BYTES - 1)
    assert not is_too_long(full)
    assert is_too_long(full + "a")
    cursor = "&cursor=" + "c" * (CURSOR_BYTES - len("&cursor="))
    assert not is_too_long(full + cursor)
    assert is_too_long(full + cursor + "c")
    assert is_too_long("/" + "é" * 4_000)
    assert not is_too_long("/" + "é" * 3_999)


QUERIES: Mapping[str, Callable[[int], str]] = {
    "one name": lambda count: "a&" * count,
    "many names": lambda count: "&".join(f"{number:x}" for number in range(count)),
    "encoded names": lambda count: "&".join(f"%61{number:x}" for number in range(count)),
    "one parameter": lambda count: "job_name=%3C&" * count,
    "a scalar": lambda count: "sort=a&" * count,
}


@pytest.mark.parametrize("kind", QUERIES)
def test_a_query_costs_in_proportion_to_its_length(kind: str) -> None:
    def prepare(count: int) -> Callable[[], None]:
        query = f"test_name=*&{QUERIES[kind](count)}"

        def read() -> None:
            pieces, unknown = split(query, SCHEMA.load_fields)
            load(SCHEMA, pieces)
            name_ignored(unknown)

        return read

    assert_linear(prepare, 500)
