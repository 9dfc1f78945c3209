"""When the client sends a request again."""

from __future__ import annotations

import pytest

from mergewatch.client import AsyncClient, ProblemError, UnreachableError
from mergewatch.client.retries import MAX_ATTEMPTS
from tests.client.serving import REPOSITORY, TOKEN, byte_server, chunked, cut_off, serving_bytes

JSON = "application/json"
PAGE = chunked(JSON, b'{"tests": [{"test_name": "a"}]}', ended=True)
INTAKE = chunked(JSON, b'{"read": 0, "refused": 0}', ended=True)


@pytest.mark.parametrize(
    "cut",
    [
        cut_off("200 OK"),
        chunked(JSON, b'{"tests": [', ended=False),
        cut_off("503 Service Unavailable"),
    ],
    ids=["fewer bytes", "no last chunk", "refusal"],
)
async def test_a_request_whose_response_is_cut_off_is_sent_again(cut: bytes) -> None:
    async with serving_bytes(cut, cut, PAGE, b"") as (client, heads):
        rows = [row["test_name"] async for row in client.search_tests(REPOSITORY)]
    assert (rows, len(heads)) == (["a"], 3)
    async with serving_bytes(cut, INTAKE, b"") as (client, heads):
        assert (await client.send_events(REPOSITORY, b""))["read"] == 0
    assert len(heads) == 2


async def test_responses_that_are_always_cut_off_are_named_as_such() -> None:
    async with serving_bytes(*[cut_off("200 OK")] * MAX_ATTEMPTS, b"") as (client, heads):
        with pytest.raises(UnreachableError, match="reached: its response was cut off"):
            await client.get_test(REPOSITORY, "x")
    assert len(heads) == MAX_ATTEMPTS


async def test_a_refusal_whose_body_is_cut_off_keeps_its_status() -> None:
    refusal = cut_off("404 Not Found", X_Request_Id="a1")
    async with serving_bytes(refusal, b"") as (client, heads):
        with pytest.raises(ProblemError) as refused:
            await client.get_test(REPOSITORY, "x")
    assert (refused.value.status, refused.value.request_id, len(heads)) == (404, "a1", 1)


def of_status(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize("lost", [b"", of_status("502 Bad Gateway"), cut_off("200 OK")])
async def test_a_quarantine_is_removed_if_only_the_response_was_lost(lost: bytes) -> None:
    async with serving_bytes(lost, of_status("404 Not Found"), b"") as (client, heads):
        await client.remove_quarantine(REPOSITORY, "x")
    assert len(heads) == 2


@pytest.mark.parametrize("busy", [[], [of_status("503 Service Unavailable")]])
async def test_a_quarantine_that_was_never_there_is_a_problem(busy: list[bytes]) -> None:
    async with serving_bytes(*busy, of_status("404 Not Found"), b"") as (client, heads):
        with pytest.raises(ProblemError, match="404") as refused:
            await client.remove_quarantine(REPOSITORY, "x")
    assert refused.value.attempts == len(heads) == len(busy) + 1


async def test_a_request_without_a_response_is_sent_five_times() -> None:
    async with serving_bytes(*[b""] * (3 * MAX_ATTEMPTS + 1)) as (client, heads):
        for work in (
            client.get_test(REPOSITORY, "x"),
            client.remove_quarantine(REPOSITORY, "x"),
            client.add_quarantine(REPOSITORY, "x", "y"),
        ):
            with pytest.raises(UnreachableError, match="Server disconnected"):
                await work
            assert len(heads) == MAX_ATTEMPTS
            heads.clear()


async def test_only_the_first_lost_connection_of_a_read_is_retried_without_a_pause() -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async with (
        byte_server(*[b""] * (2 * MAX_ATTEMPTS + 1)) as (url, heads),
        AsyncClient(url, TOKEN, sleep=wait) as client,
    ):
        for work, expected in (
            (client.get_test(REPOSITORY, "x"), [2, 4, 8]),
            (client.send_events(REPOSITORY, b""), [1, 2, 4, 8]),
        ):
            with pytest.raises(UnreachableError):
                await work
            assert (len(heads), waits) == (MAX_ATTEMPTS, expected)
            heads.clear()
            waits.clear()
