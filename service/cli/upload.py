"""Sends executions to a running service by OTLP/HTTP: the shell around `indexing.otlp.encoding`.

The token goes into one header and into no text.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import aiohttp
import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from yarl import URL

from indexing.errors import MergewatchError
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.otlp.encoding import EncodedBatch, encode_executions, fits_a_span
from indexing.store.interface import ExecutionCount, Steps
from service.cli.retries import MAX_ATTEMPTS, RETRIED_STATUSES, seconds_to_wait

# A batch is stored within a second or two; a minute is a service in trouble.
TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=10)

# An answer is a few hundred bytes; more of it is not looked at.
ANSWER_MAX_BYTES: Final = 64 * 1024
_SHOWN_ANSWER_LENGTH: Final = 500

# What is wrong with one batch is not wrong with the next.
_REFUSED_STATUSES: Final = frozenset({400, 413, 422})

_PROTOBUF: Final = "application/x-protobuf"

Sleep = Callable[[float], Awaitable[object]]


class UploadError(MergewatchError):
    """The service did not take a batch; the text says where and why and shows no credential."""


@asynccontextmanager
async def open_upload(
    url: str, token: str, *, refuse: Callable[[str], None], sleep: Sleep = asyncio.sleep
) -> AsyncIterator[Uploader]:
    """Give an uploader to the service at this URL; nothing is sent yet."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": _PROTOBUF,
        "Content-Encoding": "gzip",
        # An answer is short, and cannot then unpack into a long one.
        "Accept-Encoding": "identity",
    }
    async with aiohttp.ClientSession(timeout=TIMEOUT, headers=headers) as session:
        yield Uploader(session, url, token, refuse, sleep)


class Uploader:
    """A sink of executions: each call of `write_executions` is one or more requests.

    What was sent before an error stays there, and sending it again changes nothing. `refuse` is
    told what the service rejected, in its own words, and what cannot be said in a span.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        token: str,
        refuse: Callable[[str], None],
        sleep: Sleep,
    ) -> None:
        self._session = session
        self._url = url
        self._token = token
        self._refuse = refuse
        self._sleep = sleep
        self._proxy = _find_proxy(url)

    async def ensure_repository(self, name: RepositoryName) -> None:
        """Nothing to do: what is sent for a repository makes it known."""

    async def refresh_tests(
        self,
        now: datetime,  # noqa: ARG002 - the service has its own clock
        progress: Steps | None,  # noqa: ARG002 - and does not tell how far it is
        repository: RepositoryName | None,  # noqa: ARG002 - and knows what it was sent
    ) -> int:
        """Nothing to do: the service works out by itself what follows from what it was sent."""
        return 0

    async def write_executions(
        self, repository: RepositoryName, run: Run, executions: Sequence[Execution]
    ) -> ExecutionCount:
        """Send the executions; all that the service accepts count as written.

        Raises:
            UploadError: a batch was not taken, and asking again did not help or would not.
        """
        sendable = [execution for execution in executions if fits_a_span(execution)]
        if len(sendable) < len(executions):
            unfit = next(execution for execution in executions if not fits_a_span(execution))
            self._refuse(
                f"{len(executions) - len(sendable)} results, the first of"
                f" {unfit.test_name[:_SHOWN_ANSWER_LENGTH]}: no span can have ended in the year"
                f" {unfit.finished_at.year}"
            )
        target = f"{self._url}/v1/ci/{repository.owner}/repositories/{repository.name}/traces"
        accepted = 0
        for batch in encode_executions(repository, run, sendable):
            rejected, reason = await self._send(target, batch)
            rejected = min(max(rejected, 0), batch.spans)
            accepted += batch.spans - rejected
            if rejected:
                self._refuse(f"{rejected} results by the service: {self._shown(reason)}")
        return ExecutionCount(written=accepted, unchanged=0)

    async def _send(self, target: str, batch: EncodedBatch) -> tuple[int, str]:
        """Give how many spans of the batch were rejected, and why."""
        body = await asyncio.to_thread(gzip.compress, batch.body, 6, mtime=0)
        attempt = 1
        while True:
            try:
                status, retry_after, answer = await self._post(target, body)
            except (aiohttp.ClientConnectionError, TimeoutError) as error:
                # A service that is being started again; but no certificate mends itself.
                if attempt == MAX_ATTEMPTS or isinstance(error, aiohttp.ClientSSLError):
                    raise self._unreachable(error) from None
                status, retry_after, answer = 503, None, b""
            if status == 200:
                return self._read_success(answer)
            said = f"{status} {self._shown(_read_reason(answer))}".rstrip()
            if status in _REFUSED_STATUSES:
                return batch.spans, said
            if status not in RETRIED_STATUSES or attempt == MAX_ATTEMPTS:
                times = f", {attempt} times" if attempt > 1 else ""
                raise UploadError(f"{self._url} answered {said}{times}")
            await self._sleep(seconds_to_wait(retry_after, attempt))
            attempt += 1

    def _read_success(self, answer: bytes) -> tuple[int, str]:
        response = ExportTraceServiceResponse()
        try:
            response.ParseFromString(answer)
        except DecodeError as error:
            # A page to log in on answers 200 to everything, and keeps nothing.
            raise UploadError(f"{self._url} does not answer as such a service does") from error
        return response.partial_success.rejected_spans, response.partial_success.error_message

    async def _post(self, target: str, body: bytes) -> tuple[int, str | None, bytes]:
        try:
            # Following a redirect would hand the token to whoever it names.
            async with self._session.post(
                URL(target, encoded=True), data=body, allow_redirects=False, proxy=self._proxy
            ) as response:
                answer = await _read_answer(response)
                if response.status == 200 and response.content_type != _PROTOBUF:
                    raise UploadError(f"{self._url} does not answer as such a service does")
                return response.status, response.headers.get("Retry-After"), answer
        except (aiohttp.ClientConnectionError, TimeoutError):
            raise
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UploadError:
        """Without the chain of causes, which can hold the request with its headers."""
        reason = self._shown(str(error) or type(error).__name__)
        return UploadError(f"{self._url} cannot be reached: {reason}")

    def _shown(self, text: str) -> str:
        """Text of a stranger, short, and without the token that it may have been told."""
        return text.replace(self._token, "\u2026")[:_SHOWN_ANSWER_LENGTH]


async def _read_answer(response: aiohttp.ClientResponse) -> bytes:
    answer = b""
    async for chunk in response.content.iter_any():
        answer += chunk
        if len(answer) > ANSWER_MAX_BYTES:
            break
    return answer[:ANSWER_MAX_BYTES]


def _read_reason(answer: bytes) -> str:
    """Give what a problem body says, or nothing."""
    try:
        problem: object = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return ""
    if not isinstance(problem, dict):
        return ""
    parts = (problem.get("title"), problem.get("detail"))
    return ": ".join(part for part in parts if isinstance(part, str))


def _find_proxy(url: str) -> str | None:
    """Give the proxy that the environment names for this URL, as other tools of a CI find it."""
    parts = URL(url)
    if not parts.host or urllib.request.proxy_bypass(parts.host):
        return None
    return urllib.request.getproxies().get(parts.scheme)
