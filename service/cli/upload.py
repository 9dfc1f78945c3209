"""Uploads executions to a running service by OTLP/HTTP, encoded by `indexing.otlp.encoding`.

The token is sent in one header and appears in no message.
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

# A batch is normally stored within two seconds.
TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=10)

# A response has a few hundred bytes; the rest is ignored.
ANSWER_MAX_BYTES: Final = 64 * 1024
_SHOWN_ANSWER_LENGTH: Final = 500

# These statuses refuse one batch; later batches may succeed.
_REFUSED_STATUSES: Final = frozenset({400, 413, 422})

_PROTOBUF: Final = "application/x-protobuf"

Sleep = Callable[[float], Awaitable[object]]


class UploadError(MergewatchError):
    """The service did not accept a batch. The text says where and why, without credentials."""


@asynccontextmanager
async def open_upload(
    url: str, token: str, *, refuse: Callable[[str], None], sleep: Sleep = asyncio.sleep
) -> AsyncIterator[Uploader]:
    """Create an uploader for the service at this URL; sends nothing yet."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": _PROTOBUF,
        "Content-Encoding": "gzip",
        # Uncompressed, so that a small response cannot unpack into a large one.
        "Accept-Encoding": "identity",
    }
    async with aiohttp.ClientSession(timeout=TIMEOUT, headers=headers) as session:
        yield Uploader(session, url, token, refuse, sleep)


class Uploader:
    """A sink of executions: each call of `write_executions` is one or more requests.

    Batches sent before an error stay stored; uploads are idempotent. `refuse` receives what the
    service rejected, in its own words, and results that no span can represent.
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
        """Nothing to do: an upload registers its repository."""

    async def refresh_tests(
        self,
        now: datetime,  # noqa: ARG002 - the service has its own clock
        progress: Steps | None,  # noqa: ARG002 - and reports no progress
        repository: RepositoryName | None,  # noqa: ARG002 - and knows what it was sent
    ) -> int:
        """Nothing to do: the service recomputes derived data itself."""
        return 0

    async def write_executions(
        self, repository: RepositoryName, run: Run, executions: Sequence[Execution]
    ) -> ExecutionCount:
        """Upload the executions. Duplicates count as written.

        Raises:
            UploadError: a batch was not accepted, and retries failed or would be useless.
        """
        sendable = [execution for execution in executions if fits_a_span(execution)]
        if len(sendable) < len(executions):
            unfit = next(execution for execution in executions if not fits_a_span(execution))
            self._refuse(
                f"{len(executions) - len(sendable)} results, the first of"
                f" {unfit.test_name[:_SHOWN_ANSWER_LENGTH]}: a span cannot end in the year"
                f" {unfit.finished_at.year}"
            )
        target = f"{self._url}/v1/ci/{repository.owner}/repositories/{repository.name}/traces"
        accepted = 0
        for batch in encode_executions(repository, run, sendable):
            rejected, reason = await self._send(target, batch)
            rejected = min(max(rejected, 0), batch.spans)
            accepted += batch.spans - rejected
            if rejected:
                self._refuse(f"{rejected} results, by the service: {self._shown(reason)}")
        return ExecutionCount(written=accepted, unchanged=0)

    async def _send(self, target: str, batch: EncodedBatch) -> tuple[int, str]:
        """Send the batch; give the number of rejected spans and the reason."""
        body = await asyncio.to_thread(gzip.compress, batch.body, 6, mtime=0)
        attempt = 1
        while True:
            try:
                status, retry_after, answer = await self._post(target, body)
            except (aiohttp.ClientConnectionError, TimeoutError) as error:
                # The service may be restarting. A bad certificate stays bad.
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
            # For example a login page, which answers 200 to everything.
            raise UploadError(f"{self._url} is not a mergewatch service") from error
        return response.partial_success.rejected_spans, response.partial_success.error_message

    async def _post(self, target: str, body: bytes) -> tuple[int, str | None, bytes]:
        try:
            # A redirect would send the token to another host.
            async with self._session.post(
                URL(target, encoded=True), data=body, allow_redirects=False, proxy=self._proxy
            ) as response:
                answer = await _read_answer(response)
                if response.status == 200 and response.content_type != _PROTOBUF:
                    raise UploadError(f"{self._url} is not a mergewatch service")
                return response.status, response.headers.get("Retry-After"), answer
        except (aiohttp.ClientConnectionError, TimeoutError):
            raise
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UploadError:
        """An error without its cause, which can contain the request headers."""
        reason = self._shown(str(error) or type(error).__name__)
        return UploadError(f"{self._url} cannot be reached: {reason}")

    def _shown(self, text: str) -> str:
        """Shorten untrusted text, and mask the token in it."""
        return text.replace(self._token, "\u2026")[:_SHOWN_ANSWER_LENGTH]


async def _read_answer(response: aiohttp.ClientResponse) -> bytes:
    answer = b""
    async for chunk in response.content.iter_any():
        answer += chunk
        if len(answer) > ANSWER_MAX_BYTES:
            break
    return answer[:ANSWER_MAX_BYTES]


def _read_reason(answer: bytes) -> str:
    """Give the title and detail of a problem body, or an empty text."""
    try:
        problem: object = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return ""
    if not isinstance(problem, dict):
        return ""
    parts = (problem.get("title"), problem.get("detail"))
    return ": ".join(part for part in parts if isinstance(part, str))


def _find_proxy(url: str) -> str | None:
    """Give the proxy for this URL from the environment, as other CI tools do."""
    parts = URL(url)
    if not parts.host or urllib.request.proxy_bypass(parts.host):
        return None
    return urllib.request.getproxies().get(parts.scheme)
