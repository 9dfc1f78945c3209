"""Bodies that are refused as a whole: of a wrong type, malformed or too large."""

from __future__ import annotations

import gzip

import pytest

from indexing.ingest.bodies import MAX_CONTENT_BYTES
from service.ingest.limiter import MAX_BODY_BYTES
from tests.service.front_door import LOGS, FrontDoor, assert_problem
from tests.service.handlers.sending import TRACES, assert_refused
from tests.service.http.messages import exchange_bytes
from tests.spans import JSON, PROTOBUF

CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("kind", "packing"),
    [
        (None, ""),
        ("application/octet-stream", ""),
        ("application/x-ndjson", ""),
        ("text/plain", ""),
        ("nonsense", ""),
        (PROTOBUF, "br"),
        (PROTOBUF, "gzip, gzip"),
        (JSON, "zstd"),
    ],
)
async def test_another_kind_of_body_is_refused(
    shared_open: FrontDoor, kind: str | None, packing: str
) -> None:
    answer = await shared_open.post(TRACES, b"", kind or "", Content_Encoding=packing)
    assert_refused(answer, 415)
    assert ("Accept-Encoding" in answer.headers) == bool(packing)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (["Content-Encoding: identity", "Content-Encoding: gzip"], 415),
        (["Content-Encoding: gzip", "Content-Encoding: br"], 415),
        (["Transfer-Encoding: gzip, chunked"], 400),
        (["Transfer-Encoding: unknown, chunked"], 400),
        (["Content-Encoding: gzip", "Transfer-Encoding: Chunked"], 200),
    ],
)
async def test_a_body_of_several_codings_is_refused(
    shared_open: FrontDoor, fields: list[str], status: int
) -> None:
    body = gzip.compress(b"")
    is_chunked = any(field.startswith("Transfer-Encoding") for field in fields)
    head = [
        f"POST {LOGS} HTTP/1.1",
        "Host: a",
        f"Authorization: Bearer {shared_open.key}",
        "Content-Type: application/x-ndjson",
        "Connection: close",
        *([] if is_chunked else [f"Content-Length: {len(body)}"]),
        *fields,
        "\r\n",
    ]
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    found, headers, answer = await exchange_bytes(shared_open, "\r\n".join(head).encode() + sent)
    assert found == status
    if status != 200:
        assert_problem(status, headers["content-type"], answer)


@pytest.mark.parametrize(
    ("kind", "body", "packing", "reason"),
    [
        (PROTOBUF, b"hello, world", "", "not valid protobuf"),
        (JSON, b"{", "", "the request is not JSON"),
        (JSON, b"[]", "", "the request must be an object"),
        (PROTOBUF, b"not packed", "gzip", "cannot be unpacked"),
        (JSON, gzip.compress(b"{}", mtime=0)[:-3], "gzip", "ends too early"),
        (JSON, gzip.compress(b"{}", mtime=0) + b"more", "gzip", "cannot be unpacked"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_with_the_reason(
    shared_open: FrontDoor, kind: str, body: bytes, packing: str, reason: str
) -> None:
    answer = await shared_open.post(TRACES, body, kind, Content_Encoding=packing)
    assert_refused(answer, 400)
    assert reason in answer.json["detail"]


@pytest.mark.parametrize(("target", "kind"), [(LOGS, "text/plain"), (TRACES, PROTOBUF)])
@pytest.mark.parametrize("packing", ["", "identity"])
async def test_a_packed_body_that_is_not_called_packed_is_refused(
    shared_open: FrontDoor, target: str, kind: str, packing: str
) -> None:
    packed = gzip.compress(b"{}\n" * 3)
    answer = await shared_open.post(target, packed, kind, Content_Encoding=packing)
    assert_refused(answer, 415)
    assert "its Content-Encoding must be gzip" in answer.json["detail"]
    assert answer.headers["Accept-Encoding"] == "gzip, identity"


@pytest.mark.parametrize("target", [TRACES, LOGS])
async def test_a_body_that_unpacks_too_large_is_refused(
    shared_open: FrontDoor, target: str
) -> None:
    bomb = gzip.compress(bytes(4 * MAX_CONTENT_BYTES), 9)
    assert len(bomb) < MAX_BODY_BYTES // 16
    kind = "text/plain" if target == LOGS else PROTOBUF
    assert_refused(await shared_open.post(target, bomb, kind, Content_Encoding="gzip"), 413)


async def send_and_be_refused(door: FrontDoor, framing: str, body: bytes, status: int) -> None:
    """Send a body of spans that this header frames, and get the problem of that status."""
    head = (
        f"POST {TRACES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {door.key}\r\n"
        f"Content-Type: {PROTOBUF}\r\n{framing}\r\nConnection: close\r\n\r\n"
    )
    found, headers, answer = await exchange_bytes(door, head.encode() + body)
    assert found == status
    assert_problem(status, headers["content-type"], answer)


async def test_a_body_with_too_large_a_content_length_is_refused_unread(
    shared_open: FrontDoor,
) -> None:
    framing = f"Content-Length: {MAX_BODY_BYTES + 1}"
    await send_and_be_refused(shared_open, framing, b"\0", 413)


async def test_a_body_that_turns_out_too_large_is_refused(shared_open: FrontDoor) -> None:
    chunk = b"100000\r\n" + bytes(2**20) + b"\r\n"
    body = chunk * (MAX_BODY_BYTES // 2**20 + 1) + b"0\r\n\r\n"
    await send_and_be_refused(shared_open, CHUNKED, body, 413)


async def test_a_body_that_breaks_off_is_no_error_of_the_service(shared_open: FrontDoor) -> None:
    await send_and_be_refused(shared_open, CHUNKED, b"not a length\r\n", 400)
