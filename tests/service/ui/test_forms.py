"""Forms whose bytes arrive late, or whose head is wrong, as an attacker would send them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp.web import BaseRequest

from indexing.fairness import current_tenant
from indexing.models.keys import ApplicationKey
from service.ingest.limiter import RequestBodyLimiter
from service.middleware import fair_queue
from service.middleware.admission_control import ADMISSION_CONTROL, has_own_queue
from service.ui import forms
from tests.service.front_door import FrontDoor
from tests.service.processes import TIMEOUT
from tests.service.ui.client import Client
from tests.service.wire import Wire
from tests.waiting import until

BODY = b"csrf=x&key"


def make_head(door: FrontDoor) -> bytes:
    """The head of a form to sign in, which needs no credential."""
    lines = (
        "POST /ui/sign-in HTTP/1.1",
        f"Host: {urlsplit(door.base).netloc}",
        f"Origin: {door.base}",
        f"Content-Type: {forms.FORM_TYPE}",
        f"Content-Length: {len(BODY)}",
    )
    return "\r\n".join((*lines, "", "")).encode()


@asynccontextmanager
async def connect(door: FrontDoor) -> AsyncIterator[Wire]:
    wire = await Wire.open(door)
    try:
        async with asyncio.timeout(TIMEOUT):
            yield wire
    finally:
        await wire.close()


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> asyncio.Semaphore:
    """Released once for each form whose body is read, which may not have arrived."""
    reading = asyncio.Semaphore(0)
    receive = RequestBodyLimiter.receive

    def note(limiter: RequestBodyLimiter, *about: Any) -> Any:
        reading.release()
        return receive(limiter, *about)

    monkeypatch.setattr(RequestBodyLimiter, "receive", note)
    return reading


async def test_forms_that_do_not_arrive_leave_room_for_others(
    door: FrontDoor, reading: asyncio.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "MAX_RUNNING_PER_TENANT", 2)
    async with connect(door) as first, connect(door) as second:
        for wire in (first, second):
            wire.writer.write(make_head(door))
            await reading.acquire()
        assert (await asyncio.wait_for(door.ask("/ui/sign-in", {}), TIMEOUT)).status == 200
        # Once it arrives, it takes a slot again, and is read as any other.
        assert (await first.ask(BODY))[0] == 303


async def test_a_form_that_has_arrived_late_waits_for_a_slot_again(
    door: FrontDoor, reading: asyncio.Semaphore
) -> None:
    queue = door.app[ADMISSION_CONTROL].queue
    async with connect(door) as wire:
        wire.writer.write(make_head(door))
        await reading.acquire()
        taken: list[str] = []
        for tenant in ("one", "another"):
            while queue.try_acquire(tenant):
                taken.append(tenant)
        answering = asyncio.create_task(wire.ask(BODY))
        await until(lambda: queue.waiting == 1)
        assert not answering.done()
        for tenant in taken:
            queue.release(tenant)
        assert (await answering)[0] == 303


async def test_a_form_that_has_arrived_keeps_its_slot(
    door: FrontDoor, reading: asyncio.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[BaseRequest] = []
    monkeypatch.setattr(door.app[ADMISSION_CONTROL], "release_slot", released.append)
    async with connect(door) as wire:
        assert (await wire.ask(make_head(door) + BODY))[0] == 303
        assert released == []
        await reading.acquire()
        wire.writer.write(make_head(door))
        await reading.acquire()
        assert len(released) == 1


async def test_a_form_has_ten_seconds_to_arrive(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert forms.FORM_SECONDS == 10
    monkeypatch.setattr(forms, "FORM_SECONDS", 0.05)
    async with connect(door) as wire:
        status, _, body = await wire.ask(make_head(door))
        assert (status, b"The request body did not arrive within" in body) == (400, True)


async def test_few_forms_are_waited_for_at_once(
    door: FrontDoor, reading: asyncio.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "MAX_UNREAD_PER_TENANT", 1)
    async with connect(door) as first:
        first.writer.write(make_head(door))
        await reading.acquire()
        async with connect(door) as second:
            status, headers, _ = await second.ask(make_head(door))
            assert (status, headers["retry-after"]) == (503, "5")
        async with connect(door) as whole:
            assert (await whole.ask(make_head(door) + BODY))[0] == 303
            await reading.acquire()
        assert (await first.ask(BODY))[0] == 303
    async with connect(door) as third:
        third.writer.write(make_head(door))
        await reading.acquire()
        assert (await third.ask(BODY))[0] == 303


@pytest.mark.parametrize("origin", ["https://[", "https://a\u2100b", "//", "http:///ui"])
async def test_an_origin_that_is_no_url_is_that_of_another_site(
    door: FrontDoor, origin: str
) -> None:
    headers = {"Origin": origin, "Content-Type": forms.FORM_TYPE}
    refused = await door.ask("/ui/sign-in", headers, "POST", BODY)
    assert (refused.status, b"This form was sent by another site" in refused.body) == (403, True)


async def test_a_form_has_64_kib_at_most(door: FrontDoor) -> None:
    headers = {"Origin": door.base, "Content-Type": forms.FORM_TYPE}
    refused = await door.ask("/ui/sign-in", headers, "POST", b"key=" + b"x" * 64 * 1024)
    assert (refused.status, b"larger than 65536 bytes" in refused.body) == (413, True)


async def test_forms_with_any_cookies_wait_for_the_store_as_one_tenant(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.client.cookie_jar.clear()
    find_key, tenants = door.reader.find_key, []

    async def note(digest: bytes) -> ApplicationKey | None:
        tenants.append(current_tenant.get())
        return await find_key(digest)

    monkeypatch.setattr(door.reader, "find_key", note)
    for _ in range(3):
        assert (await Client(door).sign_in(await door.new_key())).status == 303
    assert len(tenants) == 3
    assert not any(map(has_own_queue, tenants))
