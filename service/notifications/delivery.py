"""Sends one request to the receiver of a webhook, and interprets the response.

It follows no redirects, uses no proxy, and connects only to addresses that the setting allows
(`connections.py`).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from importlib.metadata import version
from typing import Final

import aiohttp
from standardwebhooks.webhooks import Webhook as Signer
from yarl import URL

from indexing.models.notifications import Webhook
from service.config.reach import Reach
from service.notifications.connections import AddressRefusedError, ReceiverConnector
from service.notifications.messages import Message

TOTAL_SECONDS: Final = 10.0
# How long to read the body of a response, after its status is known.
DRAIN_SECONDS: Final = 1.0
CONNECT_SECONDS: Final = 5.0
# Up to this many bytes of a response are read, and ignored, so that a receiver that still writes it
# sees no reset.
MAX_ANSWER_BYTES: Final = 16 * 1024
# A longer Retry-After is cut to this, so that a receiver cannot stop its notifications.
MAX_RETRY_AFTER: Final = 3_600.0


class Result(Enum):
    """The result of sending a message."""

    SENT = "sent"
    REFUSED = "refused"
    THROTTLED = "throttled"
    FAILED = "failed"


# A refusal is for good. A throttled message, or one that failed, may be accepted later.
_RESULTS: Final = {
    **dict.fromkeys((400, 413, 422), Result.REFUSED),
    429: Result.THROTTLED,
}


# The reasons for which there is no response. The first that fits counts.
_REASONS: Final = (
    (aiohttp.ClientConnectorDNSError, "the name of the host cannot be resolved"),
    (aiohttp.ClientConnectorCertificateError, "the TLS certificate is not accepted"),
    (aiohttp.ClientConnectorSSLError, "TLS failed"),
    (aiohttp.ServerDisconnectedError, "the receiver closed the connection without an answer"),
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one request; `retry_after` is the receiver's Retry-After, in seconds."""

    result: Result
    reason: str = ""
    retry_after: float = 0.0


class Delivery:
    """The HTTP client that sends notifications; it must be closed."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    def open(cls, reach: Reach) -> Delivery:
        """Return a client that connects only to addresses within `reach`."""
        return cls(
            aiohttp.ClientSession(
                connector=ReceiverConnector(reach),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"mergewatch/{version('mergewatch')}"},
                timeout=aiohttp.ClientTimeout(total=TOTAL_SECONDS, sock_connect=CONNECT_SECONDS),
                auto_decompress=False,
                trust_env=False,
            )
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def send(self, webhook: Webhook, message: Message, now: datetime) -> Attempt:
        """Send one message; the reason of a failure names neither URL nor secret."""
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                response = await self._post(webhook, message, now)
        except TimeoutError:
            return Attempt(Result.FAILED, "no answer in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, AddressRefusedError):
                cause = cause.__cause__
            if cause is not None:
                return Attempt(Result.FAILED, str(cause))
            return Attempt(Result.FAILED, _explain(error))
        # The status alone says what the receiver did: neither the deadline nor an error of the body
        # counts after it.
        async with response:
            await _drain(response)
        return _read_attempt(response, now)

    async def _post(
        self, webhook: Webhook, message: Message, now: datetime
    ) -> aiohttp.ClientResponse:
        """Return the response once its status and headers have arrived; the body may still come."""
        headers = {"Content-Type": "application/json", **_sign(webhook, message, now)}
        # As it was registered: a receiver may compare it, or a signature of it.
        url = URL(webhook.url, encoded=True)
        return await self._session.post(
            url, data=message.body, headers=headers, allow_redirects=False
        )


def _explain(error: Exception) -> str:
    """Return the reason; the text of the error is not used, because it may contain the URL."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        detail = f": {os.strerror(number)}" if number is not None and number > 0 else ""
        return f"the receiver cannot be reached{detail}"
    return type(error).__name__


def _read_attempt(response: aiohttp.ClientResponse, now: datetime) -> Attempt:
    if 200 <= response.status < 300:
        return Attempt(Result.SENT)
    result = _RESULTS.get(response.status, Result.FAILED)
    return Attempt(result, f"status {response.status}", _retry_after(response, now))


async def _drain(response: aiohttp.ClientResponse) -> None:
    left = MAX_ANSWER_BYTES
    with suppress(aiohttp.ClientError, OSError, ValueError):
        async with asyncio.timeout(DRAIN_SECONDS):
            # Each read returns what has arrived by then.
            while left and (piece := await response.content.read(left)):
                left -= len(piece)


def _sign(webhook: Webhook, message: Message, now: datetime) -> dict[str, str]:
    if not webhook.secret:
        return {}
    signature = Signer(webhook.secret).sign(message.id, now, message.body.decode())
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }


def _retry_after(response: aiohttp.ClientResponse, now: datetime) -> float:
    text = response.headers.get("Retry-After")
    if text is None:
        return 0.0
    # Imported here, because it imports the whole client, which the service does not need otherwise.
    from mergewatch.client.retries import read_retry_after

    seconds = read_retry_after(text, now)
    return min(max(seconds or 0.0, 0.0), MAX_RETRY_AFTER)
