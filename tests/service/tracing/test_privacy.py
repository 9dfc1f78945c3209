"""Spans hold nothing private, no client can break the export, and log lines name spans."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import orjson
import pytest
from aiohttp.test_utils import make_mocked_request
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from yarl import URL

from indexing.errors import StoreUnavailableError
from indexing.models.quarantines import QuarantineRequest
from indexing.store.sqlite.store import SqliteStore
from service.config.settings import LogFormat, LogLevel, Settings
from service.logs import configure_logging
from service.tracing.log_lines import FewLines, add_span
from service.tracing.request_spans import MAX_PATH_LENGTH, describe
from tests.builders import NOON, WIDGETS
from tests.service.front_door import (
    QUARANTINES,
    SEARCH,
    FrontDoor,
    operations,
)
from tests.service.tracing.conftest import (
    Spans,
    attributes_of,
    ids_of,
    open_traced,
    open_tracing,
)


async def send(door: FrontDoor, head: bytes) -> None:
    """Send the bytes on a connection of its own, and read to the end of the answer."""
    url = URL(door.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(head)
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_no_span_holds_what_is_private(traced: FrontDoor, spans: Spans) -> None:
    secrets = ["test_of_mona", "mona@example.org", "Bearer", "S3cr3t", traced.key, "10.1.2.3"]
    sent = {
        "User-Agent": "mona@example.org",
        "X-Forwarded-For": "10.1.2.3",
        "Cookie": "a=S3cr3t",
        "baggage": "a=S3cr3t",
    }
    for target in operations().values():
        await traced.get(target, **sent)
    await traced.get(f"{SEARCH}?test_name=test_of_mona", **sent)
    await traced.get(f"/v1/{traced.key}/mw%5fS3cr3t", **sent)
    await traced.get("/ui/sign-in?link=S3cr3t", **sent)
    await traced.store.add_quarantine(WIDGETS, QuarantineRequest("test_of_mona", "flaps"), NOON)
    quarantine = {"test_name": "test_of_mona", "reason": "mona@example.org"}
    posted = await traced.post(QUARANTINES, orjson.dumps(quarantine), "application/json", **sent)
    assert posted.status in (200, 201)
    exported = encode_spans(spans.take()).SerializeToString()
    assert [text for text in secrets if text.encode() in exported] == []


async def test_no_path_stops_the_export(traced: FrontDoor, spans: Spans) -> None:
    key = f"Host: a\r\nAuthorization: Bearer {traced.key}\r\nConnection: close\r\n\r\n".encode()
    paths = (b"/%ff%00", b"/" + b"a" * 7_000, b"//[")
    for path in (*paths, b"/\xff\xfe", "/é".encode(), b"*"):
        # The parser refuses the last three before any layer sees them.
        await send(traced, b"GET " + path + b" HTTP/1.1\r\n" + key)
    found = spans.take()
    assert len(found) == len(paths)
    assert max(len(attributes_of(span)["url.path"]) for span in found) == MAX_PATH_LENGTH
    encode_spans(found).SerializeToString()


def test_bytes_that_are_no_text_are_replaced() -> None:
    # aiohttp's parser in Python takes them, as surrogates.
    _, attributes = describe(make_mocked_request("GET", "/\udcff"))
    assert attributes["url.path"] == "/?"


async def test_log_lines_name_their_span(
    tmp_path: Path,
    spans: Spans,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailableError("full")

    monkeypatch.setattr(SqliteStore, "search_tests", fail)
    configure_logging(LogLevel.WARNING, LogFormat.JSON, [add_span], [FewLines()])
    async with open_traced(Settings(data_dir=tmp_path), open_tracing(spans)) as traced:
        answer = await traced.get(f"{SEARCH}?test_name=*")
    line = orjson.loads(capsys.readouterr().err)
    request, _ = spans.take_request()
    assert (line["trace_id"], line["span_id"]) == ids_of(request)
    assert line["request_id"] == answer.headers["X-Request-Id"]


def test_the_sdk_writes_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogLevel.WARNING, LogFormat.JSON, [add_span], [FewLines()])
    for _ in range(100):
        logging.getLogger("opentelemetry.trace.span").warning("malformed")
        logging.getLogger("opentelemetry.exporter").error("unreachable")
    logging.getLogger("service").warning("one")
    logging.getLogger("service").warning("two")
    lines = [orjson.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["malformed", "unreachable", "one", "two"]
    assert "trace_id" not in lines[0]
