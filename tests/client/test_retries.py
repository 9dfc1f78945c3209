"""When the client sends a request again."""

from __future__ import annotations

import pytest

from mergewatch.client import ProblemError, UnreachableError
from mergewatch.client.retries import MAX_ATTEMPTS
from tests.client.serving import REPOSITORY, chunked, cut_off, serving_bytes

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
