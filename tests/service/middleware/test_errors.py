"""The properties of every response: problem bodies, request ids, and no plain text."""

from __future__ import annotations

import re

import pytest

from service.http.problems import TITLES
from tests.service.front_door import A_TEST_ID, LOGS, TESTS, FrontDoor, assert_problem
from tests.service.http.messages import exchange_bytes

REFUSED = {
    "/nothing": 404,
    f"{LOGS}/": 404,
    "/v1": 404,
    "//v1//": 404,
    f"{LOGS}?per_page=0": 422,
    f"{TESTS}/{A_TEST_ID}": 404,
    "/v1/repos/acme/nothing/logs": 404,
}


@pytest.mark.parametrize("target", REFUSED)
async def test_every_refusal_is_a_problem(shared_door: FrontDoor, target: str) -> None:
    answer = await shared_door.get(target)
    assert answer.status == REFUSED[target]
    assert_problem(answer.status, answer.headers["Content-Type"], answer.body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_a_method_that_a_route_does_not_have_is_refused(
    shared_door: FrontDoor, method: str
) -> None:
    answer = await shared_door.get(LOGS, method=method)
    assert_problem(405, answer.headers["Content-Type"], answer.body)
    assert set(answer.headers["Allow"].split(",")) == {"GET", "HEAD"}


@pytest.mark.parametrize("target", ["/nothing", "/health/live"])
async def test_an_unknown_expectation_is_a_problem(shared_door: FrontDoor, target: str) -> None:
    answer = await shared_door.get(target, Expect="coffee")
    assert_problem(417, answer.headers["Content-Type"], answer.body)
    assert answer.headers["X-Request-Id"]


@pytest.mark.parametrize(
    "sent",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_bytes_that_are_not_http_get_a_problem(shared_door: FrontDoor, sent: bytes) -> None:
    status, headers, body = await exchange_bytes(shared_door, sent)
    assert status == 400
    assert_problem(400, headers["content-type"], body)
    assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])


async def test_a_request_without_a_host_is_refused_where_links_need_one(
    shared_door: FrontDoor,
) -> None:
    sent = f"GET {LOGS} HTTP/1.0\r\nAuthorization: Bearer {shared_door.key}\r\n\r\n".encode()
    status, headers, body = await exchange_bytes(shared_door, sent)
    assert_problem(400, headers["content-type"], body)
    assert status == 400


@pytest.mark.parametrize("host", ["", "a b", "a/b", "user@a", "a>b", "a?b", "[::1", "a:x", "a:1:2"])
async def test_a_host_that_is_none_is_a_bad_request(shared_door: FrontDoor, host: str) -> None:
    assert (await shared_door.get(LOGS, Host=host)).status == 400


async def test_a_target_in_absolute_form_takes_its_links_from_its_own_host(
    shared_door: FrontDoor,
) -> None:
    sent = (
        f"GET http://ci.example{LOGS} HTTP/1.1\r\nHost: elsewhere.example\r\n"
        f"Connection: close\r\nAuthorization: Bearer {shared_door.key}\r\n\r\n"
    )
    status, headers, _ = await exchange_bytes(shared_door, sent.encode())
    assert status == 200
    assert "elsewhere" not in headers["link"]
    assert headers["link"].startswith("<http://ci.example/v1/")


async def test_a_credential_is_no_id_of_a_request(shared_door: FrontDoor) -> None:
    token = "a.token-of-some-host.0123456789"
    answer = await shared_door.get(LOGS, key=token, **{"X-Request-Id": token})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-Id"])


async def test_the_id_of_a_request_is_the_clients_where_it_is_well_formed(
    shared_door: FrontDoor,
) -> None:
    for given in ("a", "0" * 64, "01J5-a.b", "3f0c9a4e-8d1b-5f6a-9c2d-0123456789ab"):
        assert (await shared_door.get(LOGS, **{"X-Request-Id": given})).headers[
            "X-Request-Id"
        ] == given
    for given in ("", "0" * 65, "a b", shared_door.key, "é", "a;b"):
        answer = await shared_door.get(LOGS, **{"X-Request-Id": given})
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-Id"])


async def test_two_requests_have_two_ids_and_equal_bodies(shared_door: FrontDoor) -> None:
    one, two = [await shared_door.get("/v1/repos/acme/nothing/logs") for _ in range(2)]
    assert one.headers["X-Request-Id"] != two.headers["X-Request-Id"]
    assert one.body == two.body


async def test_health_pages_need_no_credential(shared_door: FrontDoor) -> None:
    for target in ("/health/live", "/health/ready"):
        answer = await shared_door.ask(target, {})
        assert (answer.status, answer.json) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/ui/_/nothing.css", 404),
        ("POST", "/ui/nothing", 405),
        ("DELETE", "/ui/acme/widgets", 405),
    ],
)
async def test_only_browsers_get_pages_for_what_the_dashboard_does_not_have(
    shared_door: FrontDoor, method: str, target: str, status: int
) -> None:
    for accept, expected in (
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("application/json, text/html;q=0", "application/problem+json"),
        ("*/*", "application/problem+json"),
    ):
        async with shared_door.client.request(
            method, shared_door.base + target, headers={"Accept": accept}
        ) as answer:
            assert (answer.status, answer.content_type) == (status, expected)
            assert ("Allow" in answer.headers) == (status == 405)
            if expected == "text/html":
                assert f"<h1>{TITLES[status]}</h1>" in await answer.text()
    # The API answers browsers with problems, too.
    refused = await shared_door.get("/v1/nothing", Accept="text/html")
    assert_problem(refused.status, refused.headers["Content-Type"], refused.body)
