"""What streams keep for clients that read slowly, and who is cut off for it."""

from __future__ import annotations

import asyncio

import pytest

from indexing.models.arrivals import ArrivalKey
from indexing.names import RepositoryName
from service.streaming import hub, unsent_events
from service.streaming.hub import Batch, Subscription
from service.streaming.response import BrokenStreamError
from service.streaming.unsent_events import UnsentEvents
from tests.builders import FOREIGN, WIDGETS

START = ArrivalKey(0)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsent_events, "MAX_BYTES_PER_OWNER", 100)
    monkeypatch.setattr(unsent_events, "MAX_BYTES", 150)


def batch_of(number: int, size: int) -> Batch:
    text = b"%d" % number * size
    return Batch((ArrivalKey(number),), (text,), text)


def follow(unsent: UnsentEvents, repository: RepositoryName = WIDGETS) -> Subscription:
    return Subscription(repository, START, unsent)


def test_events_of_many_repositories_of_an_owner_have_one_limit() -> None:
    unsent = UnsentEvents()
    streams = [follow(unsent, RepositoryName("Acme", f"r{number}")) for number in range(3)]
    for number, stream in enumerate(streams, 1):
        stream.offer(batch_of(number, 40))
    assert [stream.is_cut_off for stream in streams] == [False, False, True]
    other = follow(unsent, FOREIGN)
    other.offer(batch_of(4, 40))
    assert not other.is_cut_off
    assert unsent.size == 120


def test_all_owners_together_have_a_limit() -> None:
    unsent = UnsentEvents()
    first, second = follow(unsent), follow(unsent, FOREIGN)
    first.offer(batch_of(1, 90))
    second.offer(batch_of(2, 90))
    assert (first.is_cut_off, second.is_cut_off) == (False, True)


async def test_streams_of_one_repository_share_what_they_keep() -> None:
    unsent = UnsentEvents()
    streams = [follow(unsent) for _ in range(10)]
    batch = batch_of(1, 80)
    for stream in streams:
        stream.offer(batch)
    assert not any(stream.is_cut_off for stream in streams)
    assert unsent.size == 80
    for stream in streams[1:]:
        assert await stream.receive(1) == batch.text
        stream.close()
    assert unsent.size == 80
    streams[0].close()
    assert unsent.size == 0


async def test_events_count_until_they_are_sent() -> None:
    unsent = UnsentEvents()
    stream = follow(unsent)
    stream.offer(batch_of(1, 60))
    stream.offer(batch_of(2, 30))
    assert await stream.receive(1) == b"1" * 60
    assert unsent.size == 90
    assert await stream.receive(1) == b"2" * 30
    assert unsent.size == 30
    assert await stream.receive(0) == b""
    assert unsent.size == 0


def test_a_stream_that_is_cut_off_or_closed_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "MAX_QUEUED_BYTES", 50)
    unsent = UnsentEvents()
    stream = follow(unsent)
    for number in range(3):
        stream.offer(batch_of(number, 30))
    assert (stream.is_cut_off, unsent.size) == (True, 0)
    stream = follow(unsent)
    stream.close()
    stream.offer(batch_of(1, 30))
    assert unsent.size == 0


@pytest.mark.parametrize(
    ("most_queued", "reason"), [(50, hub.TOO_SLOW), (1_000, unsent_events.NO_ROOM)]
)
async def test_a_stream_that_is_cut_off_says_why_at_once(
    monkeypatch: pytest.MonkeyPatch, most_queued: int, reason: str
) -> None:
    monkeypatch.setattr(hub, "MAX_QUEUED_BYTES", most_queued)
    stream = follow(UnsentEvents())
    for number in range(3):
        stream.offer(batch_of(number, 40))
    # What woke the stream may have come while it was sending.
    with pytest.raises(BrokenStreamError, match=reason):
        async with asyncio.timeout(5):
            await stream.receive(60)


def test_events_that_a_stream_has_missed_count_while_they_are_sent() -> None:
    unsent = UnsentEvents()
    with unsent.keep(b"1" * 60, "acme"):
        with pytest.raises(BrokenStreamError), unsent.keep(b"2" * 60, "acme"):
            pass
        assert unsent.size == 60
    assert unsent.size == 0
