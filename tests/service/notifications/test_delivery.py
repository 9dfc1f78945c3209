"""One request to a real receiver: signature, response, and allowed addresses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web
from standardwebhooks.webhooks import WebhookVerificationError

from indexing.models.notifications import Webhook, WebhookFormat
from service.config.reach import Reach
from service.notifications import delivery
from service.notifications.delivery import (
    MAX_ANSWER_BYTES,
    TOTAL_SECONDS,
    Attempt,
    Delivery,
    Result,
)
from service.notifications.messages import Message
from tests.builders import NOON, WIDGETS
from tests.service.notifications.receivers import SECRET, Receiver, receiving, verify

MESSAGE = Message("msg_1", b'{"type":"test.flaky"}')


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened


@pytest.fixture
async def client() -> AsyncIterator[Delivery]:
    opened = Delivery.open(Reach.ANY)
    yield opened
    await opened.close()


@asynccontextmanager
async def listening(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Serve connections by that function; yield the URL."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def webhook_at(url: str, style: WebhookFormat = WebhookFormat.STANDARD) -> Webhook:
    secret = SECRET if style is WebhookFormat.STANDARD else b""
    return Webhook(uuid.UUID(int=1), WIDGETS, style, url, secret, NOON)


async def test_a_message_is_signed_as_receivers_verify_it(
    receiver: Receiver, client: Delivery
) -> None:
    now = datetime.now(UTC)
    attempt = await client.send(webhook_at(receiver.url), MESSAGE, now)
    assert attempt == Attempt(Result.SENT)
    assert receiver.taken == [("msg_1", {"type": "test.flaky"})]
    (request,) = receiver.requests
    assert request.headers["Content-Type"] == "application/json"
    verify(request, MESSAGE.body)
    with pytest.raises(WebhookVerificationError):
        verify(request, MESSAGE.body + b" ")


@pytest.mark.parametrize(
    ("registered", "requested"),
    [
        ("/a%3Ab%2fc%7Ed?x=%2F%3D%2B&y=%41", b"/a%3Ab%2fc%7Ed?x=%2F%3D%2B&y=%41"),
        ("/a/../b", b"/a/../b"),
        ("", b"/"),
        ("?x", b"/?x"),
    ],
)
async def test_the_url_of_a_receiver_is_requested_as_it_was_registered(
    client: Delivery, registered: str, requested: bytes
) -> None:
    targets: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(MESSAGE.body)
        targets.append(head.split(b" ")[1])
        writer.write(OK)
        writer.close()

    async with listening(answer) as url:
        webhook = webhook_at(url.removesuffix("/") + registered)
        assert (await client.send(webhook, MESSAGE, NOON)).result is Result.SENT
    assert targets == [requested]


async def test_slack_gets_no_signature(receiver: Receiver, client: Delivery) -> None:
    webhook = webhook_at(receiver.url, WebhookFormat.SLACK)
    assert (await client.send(webhook, MESSAGE, NOON)).result is Result.SENT
    assert not [name for name in receiver.requests[0].headers if name.startswith("webhook-")]


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (200, Result.SENT),
        (204, Result.SENT),
        (301, Result.FAILED),
        (307, Result.FAILED),
        (400, Result.REFUSED),
        (404, Result.FAILED),
        (413, Result.REFUSED),
        (422, Result.REFUSED),
        (429, Result.THROTTLED),
        (500, Result.FAILED),
    ],
)
async def test_the_status_decides_the_result_of_an_attempt(
    receiver: Receiver, client: Delivery, status: int, result: Result
) -> None:
    # A redirect is not followed, wherever it leads.
    receiver.answer = lambda: web.Response(status=status, headers={"Location": receiver.url})
    attempt = await client.send(webhook_at(receiver.url), MESSAGE, NOON)
    assert attempt.result is result
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30.0),
        ("999999999", 3_600.0),
        ("soon", 0.0),
        ("-1", 0.0),
        ("Tue, 01 Sep 2026 12:05:00 GMT", 300.0),
        ("Tue, 01 Sep 2026 11:00:00 GMT", 0.0),
        ("Tue, 01 Sep 9999 12:00:00 GMT", 3_600.0),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", 0.0),
    ],
)
async def test_retry_after_of_a_receiver_is_respected(
    receiver: Receiver, client: Delivery, text: str, seconds: float
) -> None:
    receiver.answer = lambda: web.Response(status=429, headers={"Retry-After": text})
    attempt = await client.send(webhook_at(receiver.url), MESSAGE, NOON)
    assert attempt.retry_after == seconds


async def test_a_slow_response_delays_no_request_of_another_webhook_to_the_same_host(
    client: Delivery,
) -> None:
    arrived, released = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST /slow"):
            arrived.set()
            await released.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with listening(answer) as url:
        waiting = asyncio.create_task(client.send(webhook_at(f"{url}slow"), MESSAGE, NOON))
        await arrived.wait()
        quick = await client.send(webhook_at(f"{url}quick"), MESSAGE, NOON)
        released.set()
        assert [quick.result, (await waiting).result] == [Result.SENT, Result.SENT]


async def test_only_the_beginning_of_a_large_response_is_read(
    receiver: Receiver, client: Delivery
) -> None:
    receiver.answer = lambda: web.Response(body=b"a" * (100 * MAX_ANSWER_BYTES))
    for _ in range(2):
        assert (await client.send(webhook_at(receiver.url), MESSAGE, NOON)).result is Result.SENT


EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def test_informational_responses_are_passed_over(client: Delivery) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(MESSAGE.body)
        writer.write(10 * EARLY_HINTS + OK)
        writer.close()

    async with listening(answer) as url:
        assert (await client.send(webhook_at(url), MESSAGE, NOON)).result is Result.SENT


async def test_endless_informational_responses_end_the_attempt(client: Delivery) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(MESSAGE.body)
        with suppress(OSError):
            while True:
                writer.write(1_000 * EARLY_HINTS)
                await writer.drain()
        writer.close()

    async with listening(answer) as url:
        attempt = await client.send(webhook_at(url), MESSAGE, NOON)
    # Not because its time was over.
    assert attempt == Attempt(Result.FAILED, "the receiver closed the connection without an answer")


async def test_a_receiver_may_close_its_connection_after_each_response(client: Delivery) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(MESSAGE.body)
        # It does not say so.
        writer.write(OK)
        writer.close()

    async with listening(answer) as url:
        for _ in range(20):
            assert (await client.send(webhook_at(url), MESSAGE, NOON)).result is Result.SENT


@pytest.mark.parametrize(
    ("body", "is_closed"),
    [
        (b"Content-Length: 100\r\n\r\n", True),
        (b"Content-Length: 100\r\n\r\n", False),
    ],
    ids=["cut off", "stalled"],
)
async def test_the_status_counts_whatever_becomes_of_the_body(
    client: Delivery, monkeypatch: pytest.MonkeyPatch, body: bytes, is_closed: bool
) -> None:
    monkeypatch.setattr(delivery, "DRAIN_SECONDS", 0.05)
    released = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(MESSAGE.body)
        writer.write(b"HTTP/1.1 200 OK\r\n" + body)
        await writer.drain()
        if not is_closed:
            await released.wait()
        writer.close()

    async with listening(answer) as url:
        attempt = await client.send(webhook_at(url), MESSAGE, NOON)
        released.set()
    assert attempt.result is Result.SENT


async def test_a_receiver_that_writes_its_response_in_parts_can_finish_it(client: Delivery) -> None:
    closed_early: list[bool] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(MESSAGE.body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        await writer.drain()
        closing = asyncio.create_task(reader.read())
        await asyncio.wait({closing}, timeout=0.1)
        closed_early.append(closing.done())
        writer.write(b"cd")
        await closing
        writer.close()

    async with listening(answer) as url:
        assert (await client.send(webhook_at(url), MESSAGE, NOON)).result is Result.SENT
    assert closed_early == [False]


async def test_the_deadline_of_an_attempt_does_not_cover_the_body(
    client: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    now, drain = loop.time, delivery._drain
    released = asyncio.Event()

    async def drain_later(response: aiohttp.ClientResponse) -> None:
        # The status has come just in time, and the deadline passes before the end of the body.
        monkeypatch.setattr(loop, "time", lambda: now() + TOTAL_SECONDS)
        await drain(response)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(MESSAGE.body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        await released.wait()
        writer.close()

    monkeypatch.setattr(delivery, "_drain", drain_later)
    async with listening(answer) as url:
        attempt = await client.send(webhook_at(url), MESSAGE, NOON)
        released.set()
    assert attempt.result is Result.SENT


async def test_a_receiver_that_never_answers_times_out(
    client: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "TOTAL_SECONDS", 0.05)
    released = asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    async with listening(hold) as url:
        attempt = await client.send(webhook_at(url), MESSAGE, NOON)
        assert attempt == Attempt(Result.FAILED, "no answer in time")
        released.set()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_a_private_address_is_refused_before_anything_is_sent(
    receiver: Receiver, host: str
) -> None:
    client = Delivery.open(Reach.PUBLIC)
    url = receiver.url.replace("127.0.0.1", host)
    attempt = await client.send(webhook_at(url), MESSAGE, NOON)
    await client.close()
    assert attempt == Attempt(
        Result.FAILED, "the address is not public, which needs MERGEWATCH_NOTIFICATIONS=any"
    )
    assert receiver.requests == []


@pytest.mark.parametrize("reach", Reach)
async def test_an_address_that_no_setting_allows_is_refused_without_naming_one(
    reach: Reach,
) -> None:
    client = Delivery.open(reach)
    attempt = await client.send(webhook_at("http://169.254.169.254/"), MESSAGE, NOON)
    await client.close()
    assert attempt == Attempt(Result.FAILED, "the address is not allowed")


@pytest.mark.parametrize(
    "url", ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://[fe80::1]/"]
)
async def test_odd_spellings_of_an_address_are_refused(client: Delivery, url: str) -> None:
    assert (await client.send(webhook_at(url), MESSAGE, NOON)).result is Result.FAILED


async def test_a_failure_names_no_url(client: Delivery) -> None:
    webhook = webhook_at("http://127.0.0.1:1/hush")
    attempt = await client.send(webhook, MESSAGE, NOON)
    assert attempt.result is Result.FAILED
    assert "hush" not in attempt.reason + repr(webhook)
    assert "127.0.0.1" not in attempt.reason + repr(webhook)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/", "the receiver cannot be reached: Connection refused"),
        ("http://receiver.invalid/", "the name of the host cannot be resolved"),
    ],
)
async def test_a_failure_is_told_in_words(client: Delivery, url: str, reason: str) -> None:
    assert await client.send(webhook_at(url), MESSAGE, NOON) == Attempt(Result.FAILED, reason)


async def test_a_receiver_without_tls_is_told_in_words(client: Delivery) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with listening(answer) as url:
        attempt = await client.send(webhook_at(url.replace("http:", "https:")), MESSAGE, NOON)
    assert attempt == Attempt(Result.FAILED, "TLS failed")
