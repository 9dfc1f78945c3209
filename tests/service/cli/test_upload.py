"""Executions uploaded to a real HTTP server, which gives good, bad and foreign responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from indexing.models.executions import Conclusion
from indexing.names import RepositoryName
from indexing.store.interface import ExecutionCount
from mergewatch.client.retries import MAX_ATTEMPTS, MAX_WAIT_SECONDS, seconds_to_wait
from service.cli.upload import ServiceRequestError, open_upload
from service.server.listener import http_url
from service.server.process import bind
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.service.receiver import (
    TOKEN,
    Receiver,
    accept,
    answer,
    disconnect,
    receiving,
    reject_one,
)

RUN = make_run("7")
RESULTS = [("a.b", Conclusion.PASSED), ("a.c", Conclusion.FAILED)]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened


@dataclass
class Upload:
    """One upload of `RESULTS`: what it refused, and the delays it would have waited."""

    refused: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def send(self, url: str, repository: RepositoryName = WIDGETS) -> ExecutionCount:
        async def note(seconds: float) -> None:
            self.waits.append(seconds)

        async with open_upload(url, TOKEN, refuse=self.refused.append, sleep=note) as sink:
            await sink.ensure_repository(repository)
            executions = make_executions(RUN, RESULTS, repository=repository)
            count = await sink.write_results(repository, {RUN: executions})
            await sink.refresh_tests(NOON, None, repository)
            return count


async def test_executions_arrive_as_spans_under_the_repository(receiver: Receiver) -> None:
    upload = Upload()
    assert await upload.send(receiver.url + "/prefix") == ExecutionCount(2, 0)
    ((path, credential, request),) = receiver.requests
    assert path == "/prefix/v1/ci/acme/repositories/widgets/traces"
    assert credential == f"Bearer {TOKEN}"
    spans = [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
    assert [span.name for span in spans] == ["a.b", "a.c"]
    assert upload == Upload()


async def test_a_repeated_upload_sends_the_same_spans(receiver: Receiver) -> None:
    await Upload().send(receiver.url)
    await Upload().send(receiver.url)
    first, second = receiver.requests
    assert first == second


async def test_what_the_service_rejects_is_refused_in_its_words(receiver: Receiver) -> None:
    receiver.answers = [reject_one]
    upload = Upload()
    assert await upload.send(receiver.url) == ExecutionCount(1, 0)
    assert upload.refused == ["1 result, by the service: no name; \u2026"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", "<html>log in</html>"),
        ("application/x-protobuf", "not a message"),
        ("application/json", "{}"),
    ],
)
async def test_a_page_that_answers_200_to_everything_has_kept_nothing(
    receiver: Receiver, kind: str, body: str
) -> None:
    receiver.answers = [answer(200, body, Content_Type=kind)]
    with pytest.raises(ServiceRequestError, match="is not a mergewatch service"):
        await Upload().send(receiver.url)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_batch_that_is_refused_does_not_keep_the_others_out(
    receiver: Receiver, status: int
) -> None:
    receiver.answers = [answer(status, f'{{"title": "Refused", "detail": "for {TOKEN}"}}'), accept]
    upload = Upload()
    assert await upload.send(receiver.url) == ExecutionCount(0, 0)
    assert upload.refused == [f"2 results, by the service: {status} Refused: for \u2026"]
    assert await upload.send(receiver.url) == ExecutionCount(2, 0)


async def test_a_service_that_is_started_again_is_waited_for(receiver: Receiver) -> None:
    receiver.answers = [disconnect, disconnect, accept]
    upload = Upload()
    assert await upload.send(receiver.url) == ExecutionCount(2, 0)
    assert upload.waits == [1.0, 2.0]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_service_is_retried_after_retry_after(receiver: Receiver, status: int) -> None:
    receiver.answers = [answer(status, Retry_After="3"), answer(status), accept]
    upload = Upload()
    assert await upload.send(receiver.url) == ExecutionCount(2, 0)
    assert upload.waits == [3.0, 2.0]
    assert len(receiver.requests) == 3


async def test_a_service_that_stays_busy_causes_an_error(receiver: Receiver) -> None:
    receiver.answers = [answer(503, Retry_After="86400")]
    upload = Upload()
    with pytest.raises(ServiceRequestError, match=f"503.*{MAX_ATTEMPTS} times"):
        await upload.send(receiver.url)
    assert upload.waits == [MAX_WAIT_SECONDS] * (MAX_ATTEMPTS - 1)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 415, 500])
async def test_any_other_answer_is_an_error_at_once(receiver: Receiver, status: int) -> None:
    problem = f'{{"title": "Refused", "detail": "for {TOKEN}"}}'
    receiver.answers = [answer(status, problem)]
    with pytest.raises(ServiceRequestError) as failed:
        await Upload().send(receiver.url)
    assert str(failed.value) == f"{receiver.url} answered {status} Refused: for \u2026"
    assert len(receiver.requests) == 1


async def test_the_text_of_a_service_is_one_line_and_moves_no_terminal(receiver: Receiver) -> None:
    problem = r'{"title": "No", "detail": "key\n::error::x\u001b[2J"}'
    receiver.answers = [answer(403, problem)]
    with pytest.raises(ServiceRequestError) as failed:
        await Upload().send(receiver.url)
    assert str(failed.value).endswith(r"answered 403 No: key\n::error::x\x1b[2J")


async def test_a_redirect_is_not_followed_with_the_token(receiver: Receiver) -> None:
    target = f"{receiver.url}/elsewhere"
    receiver.answers = [answer(307, Location=target)]
    with pytest.raises(
        ServiceRequestError, match=f"307 Temporary Redirect: it redirects to {target}$"
    ):
        await Upload().send(receiver.url)
    assert len(receiver.requests) == 1


async def test_a_service_that_is_not_there_is_one_clear_line() -> None:
    with bind("127.0.0.1", 0) as listener:
        url = http_url(listener)
    with pytest.raises(ServiceRequestError, match="cannot be reached") as failed:
        await Upload().send(url)
    assert "\n" not in str(failed.value)
    assert TOKEN not in str(failed.value)


async def test_a_server_without_tls_is_not_trusted_as_one_with_it(receiver: Receiver) -> None:
    with pytest.raises(ServiceRequestError, match="cannot be reached"):
        await Upload().send(receiver.url.replace("http:", "https:"))
    assert receiver.requests == []


async def test_results_that_no_span_can_represent_are_refused_and_the_rest_is_sent(
    receiver: Receiver,
) -> None:
    refused: list[str] = []
    late = make_executions(RUN, RESULTS[:1], datetime(9999, 1, 1, tzinfo=UTC))
    async with open_upload(receiver.url, TOKEN, refuse=refused.append) as sink:
        results = {RUN: [*late, *make_executions(RUN, RESULTS)]}
        count = await sink.write_results(WIDGETS, results)
    assert count == ExecutionCount(2, 0)
    assert "1 result," in refused[0]
    assert "year 9999" in refused[0]


@pytest.mark.parametrize(
    ("header", "attempt", "seconds"),
    [
        (None, 1, 1),
        (None, 4, 8),
        (None, 60, MAX_WAIT_SECONDS),
        ("0", 3, 4),
        ("7", 1, 7),
        ("999999999999999999999", 1, MAX_WAIT_SECONDS),
        ("Tue, 01 Sep 2026 12:00:09 GMT", 1, 9),
        ("Tue, 01 Sep 2026 11:00:00 GMT", 2, 2),
        ("soon", 2, 2),
        ("-5", 1, 1),
        ("\u0665", 1, 1),
    ],
)
def test_waits_follow_retry_after_within_bounds(
    header: str | None, attempt: int, seconds: float
) -> None:
    assert seconds_to_wait(header, attempt, datetime(2026, 9, 1, 12, tzinfo=UTC)) == seconds
