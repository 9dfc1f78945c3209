"""`mergewatch events --follow`, over servers that send what a test says."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from click.testing import CliRunner, Result

from service.cli import main
from tests.client.serving import REPOSITORY, TOKEN, byte_server, chunked

FIRST = b"id: first\nretry: 2000\n\n"


def message(number: int) -> bytes:
    event = {
        "id": number,
        "received_at": "2026-09-01T12:00:00Z",
        "trigger": "x",
        "repository": REPOSITORY,
        "pull_request": number,
        "base_ref": None,
        "type": "action.merge",
        "metadata": {},
    }
    return b"id: after-%d\ndata: %b\n\n" % (number, orjson.dumps(event))


def stream(*pieces: bytes) -> bytes:
    return chunked("text/event-stream", *pieces, ended=False)


async def follow(url: str, *words: str) -> Result:
    """Run the command in a thread, as the server runs in this one."""
    return await asyncio.to_thread(
        CliRunner().invoke,
        main,
        ("events", "--repository", REPOSITORY, "--follow", "--json", *words),
        env={"MERGEWATCH_URL": url, "MERGEWATCH_TOKEN": TOKEN},
        catch_exceptions=False,
    )


def numbers_of(result: Result) -> list[int]:
    return [orjson.loads(line)["id"] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [(("--limit=1",), [1]), (("--limit=3",), [1, 2, 3]), (("--limit=4",), [1, 2, 3, 4])],
    ids=["in a page", "at the end of a page", "in the second page"],
)
async def test_a_limit_ends_with_the_id_of_the_last_printed_event(
    words: tuple[str, ...], numbers: list[int]
) -> None:
    pages = FIRST + message(1) + message(2) + message(3), message(4) + message(5)
    async with byte_server(stream(*pages)) as (url, _):
        result = await follow(url, *words)
    assert (result.exit_code, numbers_of(result)) == (0, numbers)
    assert result.stderr == f"to go on from here: --follow --after after-{numbers[-1]}\n"


async def test_events_that_are_filtered_out_are_not_read_again() -> None:
    checked = chunked("application/json", b'{"events": []}', ended=True)
    pages = message(1) + message(2), message(3), message(4)
    async with byte_server(checked, stream(*pages)) as (url, _):
        result = await follow(url, "--limit=1", "--pull-request=3", "--after", "after-0")
    assert numbers_of(result) == [3]
    assert result.stderr.endswith("--after after-3\n")


async def test_a_stream_without_events_ends_with_the_id_where_it_began() -> None:
    began = chunked("text/event-stream", b"id: first\nretry: 0\n\n", ended=True)
    refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    async with byte_server(began, refused, b"") as (url, _):
        result = await follow(url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "to go on from here: --follow --after first\n" in result.stderr


async def test_an_id_that_the_stream_does_not_know_any_more_is_not_recommended() -> None:
    began = chunked("text/event-stream", b"id: first\nretry: 0\n\n", ended=True)
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    async with byte_server(began, refused, b"") as (url, _):
        result = await follow(url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "to go on" not in result.stderr


async def test_an_id_that_the_stream_does_not_know_is_told_with_the_option() -> None:
    problem = b'{"status": 400, "title": "Bad request", "detail": "Last-Event-ID must be an id"}'
    refused = (
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(problem), problem)
    )
    async with byte_server(refused, b"") as (url, _):
        result = await follow(url, "--after", "before")
    assert result.exit_code == 1
    assert "leave out --after" in result.stderr


async def test_a_stream_that_never_opened_has_no_id_to_resume_after() -> None:
    refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    async with byte_server(refused, b"") as (url, _):
        result = await follow(url, "--after", "before")
    assert result.exit_code == 1
    assert "to go on" not in result.stderr
