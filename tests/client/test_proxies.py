"""Proxies from the environment."""

from __future__ import annotations

import os

import pytest

from mergewatch.client import AsyncClient, UnreachableError
from mergewatch.client.proxies import Proxy, find_proxy
from service.server.process import bind
from tests.client.serving import REPOSITORY, TOKEN, byte_server, chunked

PAGE = chunked("application/json", b'{"tests": []}', ended=True)
REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({"http_proxy": "http://proxy:1"}, Proxy("http_proxy", "http://proxy:1")),
        ({"http_proxy": "proxy:1"}, Proxy("http_proxy", "http://proxy:1")),
        ({"HTTP_PROXY": "a:b@proxy"}, Proxy("HTTP_PROXY", "http://a:b@proxy")),
        ({"ALL_PROXY": "proxy:1"}, Proxy("ALL_PROXY", "http://proxy:1")),
        ({"http_proxy": "", "all_proxy": "proxy:1"}, Proxy("all_proxy", "http://proxy:1")),
        ({"http_proxy": "http://a", "all_proxy": "b"}, Proxy("http_proxy", "http://a")),
        ({"http_proxy": "socks5://proxy:1"}, Proxy("http_proxy", None)),
        ({"http_proxy": "http://[proxy"}, Proxy("http_proxy", None)),
        ({"all_proxy": "socks5://proxy:1"}, None),
        ({"https_proxy": "http://proxy:1"}, None),
        ({}, None),
    ],
)
def test_the_environment_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], proxy: Proxy | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_proxy("http://mergewatch.example/path") == proxy


@pytest.mark.parametrize(
    ("url", "exceptions", "is_used"),
    [
        ("http://mergewatch.example", "mergewatch.example:80", False),
        ("http://mergewatch.example:8000", "mergewatch.example:8000", False),
        ("http://mergewatch.example:8000", "mergewatch.example:80", True),
        ("http://mergewatch.example:8000", "a.example, .example", False),
        ("http://[::1]:8000", "::1", False),
        ("http://[::1]:8000", "a.example, [::1]", False),
        ("http://[::1]:8000", "::/64", False),
        ("http://10.1.2.3:8000", "a.example, 10.0.0.0/8", False),
        ("http://10.1.2.3", "192.168.0.0/16,::/0", True),
        ("http://mergewatch.example", "0.0.0.0/0", True),
        ("http://mergewatch.example", "*", False),
        ("http://mergewatch.example", "watch.example", True),
    ],
)
def test_no_proxy_names_services_with_or_without_a_port(
    monkeypatch: pytest.MonkeyPatch, url: str, exceptions: str, is_used: bool
) -> None:
    monkeypatch.setenv("http_proxy", "proxy:1")
    monkeypatch.setenv("no_proxy", exceptions)
    assert (find_proxy(url) is not None) is is_used


async def test_a_proxy_without_a_scheme_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with byte_server(PAGE, b"") as (proxy, heads):
        monkeypatch.setenv("http_proxy", proxy.removeprefix("http://"))
        async with AsyncClient("http://mergewatch.example", TOKEN) as client:
            assert [row async for row in client.search_tests(REPOSITORY)] == []
    assert heads[0].startswith(b"GET http://mergewatch.example/v1/")


async def test_the_error_of_a_proxy_names_its_setting_and_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def wait(_: float) -> None:
        pass

    with bind("127.0.0.1", 0) as listener:
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    async with byte_server(REFUSED, b"") as (refusing, _):
        for value, said in (
            ("socks5://mona:hush@proxy:1", "reached: https_proxy must be a URL such as"),
            ("http://mona:hush@[proxy", "reached: https_proxy must be a URL such as"),
            (f"mona:hush@{closed}", "reached through the proxy of https_proxy: "),
            (
                refusing.replace("//", "//mona:hush@"),
                "through the proxy of https_proxy: it answered 407",
            ),
        ):
            monkeypatch.setenv("https_proxy", value)
            async with AsyncClient("https://mergewatch.example", TOKEN, sleep=wait) as client:
                with pytest.raises(UnreachableError, match=said) as failed:
                    await client.get_test(REPOSITORY, "x")
            assert "hush" not in str(failed.value)
