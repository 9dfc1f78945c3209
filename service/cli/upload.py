"""Uploads executions to a running service by OTLP/HTTP, encoded by `indexing.otlp.encoding`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from indexing.errors import MergewatchError
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.otlp.encoding import EncodedBatch, encode_executions, fits_a_span
from indexing.store.interface import ExecutionCount, Steps
from mergewatch.client import AsyncClient, ClientError, ProblemError
from mergewatch.client.transport import Sleep
from service.cli.output import counted, visible

_SHOWN_NAME_LENGTH: Final = 500

# These statuses refuse one batch; later batches may succeed.
_REFUSED_STATUSES: Final = frozenset({400, 413, 422})


class ServiceRequestError(MergewatchError):
    """A request to the service failed. The message has the URL and reason, no credentials."""


@asynccontextmanager
async def open_upload(
    url: str, token: str, *, refuse: Callable[[str], None], sleep: Sleep = asyncio.sleep
) -> AsyncIterator[Uploader]:
    """Create an uploader for the service at this URL; sends nothing yet."""
    async with AsyncClient(url, token, sleep=sleep) as client:
        yield Uploader(client, url, refuse)


class Uploader:
    """A sink of executions: each run in a call of `write_results` is one or more requests.

    Batches sent before an error stay stored; uploads are idempotent. `refuse` receives a message
    for results that the service rejects, and for results that no span can represent.
    """

    def __init__(self, client: AsyncClient, url: str, refuse: Callable[[str], None]) -> None:
        self._client = client
        self._url = url
        self._refuse = refuse

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

    async def write_results(
        self, repository: RepositoryName, results: Mapping[Run, Sequence[Execution]]
    ) -> ExecutionCount:
        """Upload the executions, run by run. Duplicates count as written.

        Raises:
            ServiceRequestError: a batch was not accepted, and retries failed or would be useless.
        """
        accepted = [
            await self._upload(repository, run, executions) for run, executions in results.items()
        ]
        return ExecutionCount(written=sum(accepted), unchanged=0)

    async def _upload(
        self, repository: RepositoryName, run: Run, executions: Sequence[Execution]
    ) -> int:
        """Upload the executions of a run; return how many were accepted."""
        sendable = [execution for execution in executions if fits_a_span(execution)]
        if len(sendable) < len(executions):
            unfit = next(execution for execution in executions if not fits_a_span(execution))
            self._refuse(
                f"{counted(len(executions) - len(sendable), 'result')}, the first of"
                f" {unfit.test_name[:_SHOWN_NAME_LENGTH]}: a span cannot end in the year"
                f" {unfit.finished_at.year}"
            )
        accepted = 0
        for batch in encode_executions(repository, run, sendable):
            rejected, reason = await self._send(repository, batch)
            rejected = min(max(rejected, 0), batch.spans)
            accepted += batch.spans - rejected
            if rejected:
                self._refuse(f"{counted(rejected, 'result')}, by the service: {reason}")
        return accepted

    async def _send(self, repository: RepositoryName, batch: EncodedBatch) -> tuple[int, str]:
        """Send the batch; return the number of rejected spans and the reason."""
        response = ExportTraceServiceResponse()
        try:
            response.ParseFromString(await self._client.send_traces(str(repository), batch.body))
        except ProblemError as error:
            if error.status in _REFUSED_STATUSES:
                return batch.spans, error.summary
            raise ServiceRequestError(visible(str(error))) from None
        except ClientError as error:
            raise ServiceRequestError(visible(str(error))) from None
        except DecodeError as error:
            # For example a login page, which answers 200 to everything.
            raise ServiceRequestError(f"{self._url} is not a mergewatch service") from error
        success = response.partial_success
        return success.rejected_spans, self._client.shown(success.error_message)
