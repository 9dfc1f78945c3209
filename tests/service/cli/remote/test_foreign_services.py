"""The commands that read from a running service, at a URL where another one is."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner

from service.cli import main
from tests.client.serving import TOKEN, byte_server, chunked


@pytest.mark.parametrize(
    "words",
    [
        ("show", "x"),
        ("show", "x", "--json"),
        ("failures", "x", "--failure=y"),
        ("groups", "--by=job"),
        ("stats", "executions"),
        ("search",),
    ],
)
async def test_json_of_another_service_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    async with byte_server(chunked("application/json", b"{}", ended=True), b"") as (url, _):
        monkeypatch.setenv("MERGEWATCH_URL", url)
        monkeypatch.setenv("MERGEWATCH_TOKEN", TOKEN)
        arguments = ["tests", words[0], "--repository=acme/widgets", *words[1:]]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: {url} is not a mergewatch service\n"


async def test_a_page_that_is_missing_there_is_named_with_its_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    async with byte_server(refused, b"") as (url, _):
        monkeypatch.setenv("MERGEWATCH_URL", url)
        monkeypatch.setenv("MERGEWATCH_TOKEN", TOKEN)
        arguments = ["tests", "search", "--repository=acme/widgets"]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert (result.exit_code, result.stderr) == (1, f"Error: {url} answered 404 Not Found\n")
