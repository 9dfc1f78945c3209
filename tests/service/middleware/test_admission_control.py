"""Overload as clients see it: refusals as documented, while the health pages keep responding."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Hashable
from traceback import walk_tb
from urllib.parse import urljoin, urlsplit

import pytest
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import BaseRequest, Response

from indexing.models.keys import Scope
from service.auth.api_keys import make_key
from service.http.problems import Problem
from service.middleware import fair_queue as queue
from service.middleware.admission_control import ADMISSION_CONTROL, AdmissionControl, has_own_queue
from service.middleware.fair_queue import FairQueue
from tests.builders import NOON
from tests.service.front_door import LOGS, Answer, FrontDoor, Held, hold_up
from tests.service.ui.client import Client
from tests.service.ui.signed_in import sign_in
from tests.service.wire import Wire


async def overload(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> tuple[Held, asyncio.Task[Answer]]:
    """Let one request take all room; return what holds it up, and the request."""
    held = hold_up(door, monkeypatch)
    monkeypatch.setattr(queue, "MAX_RUNNING", 1)
    for bound in ("MIN_QUEUE", "MAX_QUEUE"):
        monkeypatch.setattr(queue, bound, 0)
    first = asyncio.create_task(door.get(LOGS))
    await held.arrived.wait()
    return held, first


async def test_a_shed_request_gets_503_with_retry_after(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, first = await overload(door, monkeypatch)

    refused = await door.get(LOGS, **{"X-Request-Id": "mine"})
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert refused.headers["X-Request-Id"] == "mine"
    assert refused.json["status"] == 503
    assert (await door.get("/health/ready")).status == 200
    assert door.app[ADMISSION_CONTROL].queue.refused == 1
    # Another spelling of the same target is limited too.
    assert (await door.get(LOGS.replace("/v1/", "/%761/"))).status == 503

    held.released.set()
    assert (await first).status == 200
    assert (await door.get(LOGS)).status == 200


async def test_a_page_of_the_dashboard_that_is_shed_is_html(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, first = await overload(door, monkeypatch)

    refused = await door.ask("/ui/", {"X-Request-Id": "mine"})
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert refused.headers["Content-Type"] == "text/html; charset=utf-8"
    assert refused.headers["X-Request-Id"] == "mine"
    assert refused.headers["X-Content-Type-Options"] == "nosniff"
    assert b"<p>Server overloaded, retry later.</p>" in refused.body
    assert b"request mine</p>" in refused.body
    assert b'<a href="./">All repositories</a>' in refused.body
    about = {"HX-Request": "true", "X-Request-Id": "mine"}
    part = await door.ask("/ui/acme/widgets/tests", about)
    assert (part.status, part.headers["HX-Reswap"]) == (503, "innerHTML")
    assert part.body.startswith(b'<div class="state broken"')
    assert b"request mine</p>" in part.body

    held.released.set()
    assert (await first).status == 200


async def test_a_page_with_too_long_a_target_is_html(door: FrontDoor) -> None:
    refused = await door.ask(f"/ui/acme/widgets/tests?test_name={'x' * 8_000}", {})
    assert refused.status == 414
    assert refused.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"<p>The request target is longer than 8000 bytes" in refused.body
    assert f"request {refused.headers['X-Request-Id']}</p>".encode() in refused.body
    [link] = re.findall(rb'<a href="([^"]*)">All repositories</a>', refused.body)
    assert urljoin("/prefix/ui/acme/widgets/tests", link.decode()) == "/prefix/ui/"
    deep = await door.ask(f"/ui/{'/' * 9_000}", {})
    assert (deep.status, b'<a href="/ui/">' in deep.body) == (414, True)


def make_up_key() -> str:
    """Return a well-formed key that was never issued."""
    text, _ = make_key(
        key_id="none", name="", scope=Scope.READ, owner="acme", repository=None, created_at=NOON
    )
    return text


async def test_made_up_credentials_share_one_queue(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await door.get(LOGS)).status == 200
    held = hold_up(door, monkeypatch, "find_key")
    monkeypatch.setattr(queue, "MAX_RUNNING", 2)
    monkeypatch.setattr(queue, "MAX_RUNNING_PER_TENANT", 1)
    flood = [asyncio.create_task(door.get(LOGS, key=make_up_key())) for _ in range(5)]
    await held.arrived.wait()
    # If each were its own tenant, two would run, and no other request before they end.
    assert (await asyncio.wait_for(door.get(LOGS), 10)).status == 200
    held.released.set()
    assert {(await answer).status for answer in flood} == {403}


async def test_a_disconnected_client_frees_its_slot(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = hold_up(door, monkeypatch)
    monkeypatch.setattr(queue, "MAX_RUNNING", 1)
    gone = asyncio.create_task(door.get(LOGS))
    await held.arrived.wait()
    gone.cancel()
    # If the slot stayed taken, this would wait for as long as the store call is held.
    assert (await asyncio.wait_for(door.get("/openapi.json"), 10)).status == 200
    assert not held.released.is_set()


@pytest.fixture
def tenants(monkeypatch: pytest.MonkeyPatch) -> list[Hashable]:
    """The tenants of all requests, in their order."""
    tenants: list[Hashable] = []
    acquire = FairQueue.try_acquire

    def note(queue: FairQueue, tenant: Hashable) -> bool:
        tenants.append(tenant)
        return acquire(queue, tenant)

    monkeypatch.setattr(FairQueue, "try_acquire", note)
    return tenants


@pytest.mark.parametrize("stack", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("target", "queues"), [("/ui/", 1), ("http://h/ui/", 0), ("/%75i/", 0)])
async def test_a_session_has_one_queue_at_most_whatever_is_sent_with_it(
    door: FrontDoor, tenants: list[Hashable], target: str, queues: int
) -> None:
    client = await sign_in(door)
    ((name, value),) = client.cookies.items()
    wire = await Wire.open(door)
    tenants.clear()
    for number in range(5):
        lines = (
            f"GET {target} HTTP/1.1",
            f"Host: {urlsplit(door.base).netloc}",
            f"Cookie: {name}={value}; junk={number}",
            f"Authorization: Bearer {number}",
        )
        head = "\r\n".join((*lines, "", "")).encode()
        for _ in range(2):
            assert (await wire.ask(head))[0] == 200
    assert len({tenant for tenant in tenants if has_own_queue(tenant)}) == queues
    await wire.close()


@pytest.mark.parametrize("stack", ["sqlite"], indirect=True)
async def test_all_sessions_of_a_key_share_one_queue(
    door: FrontDoor, tenants: list[Hashable]
) -> None:
    first = await sign_in(door)
    for client in (first, Client(door), Client(door)):
        if client is not first:
            await client.sign_in()
        for _ in range(2):
            assert (await client.get("/ui/")).status == 200
    assert len({tenant for tenant in tenants if has_own_queue(tenant)}) == 1


async def test_a_refusal_keeps_nothing_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MAX_RUNNING", 1)
    # On a busy machine a slice of time could end between two lines.
    monkeypatch.setattr(queue, "SLICE_SECONDS", 60.0)
    for bound in ("MIN_QUEUE", "MAX_QUEUE"):
        monkeypatch.setattr(queue, bound, 0)
    control = AdmissionControl()
    frames: list[int] = []

    async def refuse(request: BaseRequest) -> Response:
        control.release_slot(request)
        assert control.queue.try_acquire("another")
        with pytest.raises(Problem) as refused:
            await control.take_slot(request)
        frames.append(len([*walk_tb(refused.value.__traceback__)]))
        control.queue.release("another")
        return Response()

    answer = control.wrap(refuse)
    for _ in range(3):
        await answer(make_mocked_request("POST", "/ui/sign-in"))
    # An exception that is raised again keeps the frames of every time, with what they hold.
    assert len(set(frames)) == 1


async def test_work_that_outlasts_its_request_keeps_its_slot_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "MAX_RUNNING", 1)
    control = AdmissionControl()
    works, ends, taken = (asyncio.Event() for _ in range(3))
    tasks: list[asyncio.Task[Response]] = []

    async def work(request: BaseRequest) -> Response:
        works.set()
        await ends.wait()
        # As a form does while it arrives.
        control.release_slot(request)
        assert control.queue.try_acquire("another")
        taking = asyncio.create_task(control.take_slot(request))
        await asyncio.sleep(0)
        control.queue.release("another")
        await taking
        taken.set()
        return Response()

    async def outlast(request: BaseRequest) -> Response:
        tasks.append(asyncio.create_task(control.keep_slot(request, work(request))))
        return await asyncio.shield(tasks[0])

    async def answer() -> None:
        await control.wrap(outlast)(make_mocked_request("POST", "/ui/sign-in"))

    request = asyncio.create_task(answer())
    await works.wait()
    # The client leaves.
    request.cancel()
    await asyncio.wait([request])
    assert not control.queue.try_acquire("another")
    ends.set()
    await tasks[0]
    assert taken.is_set()
    assert control.queue.try_acquire("another")
