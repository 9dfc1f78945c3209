"""Reads whose header fields are known are not parsed, and get what a parsed request gets."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from service.config.settings import Settings
from tests.builders import NOON, WIDGETS, after, load_names
from tests.service.conftest import on_every_stack, open_door
from tests.service.front_door import (
    A_TEST_ID,
    LOGS,
    QUARANTINES,
    SEARCH,
    operations,
)
from tests.service.server.direct_reads import IN_MEMORY, LATCH, UNKNOWN, learn
from tests.service.wire import HINGE, Wire


def plain(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, dict[str, str], bytes]:
    """Return an answer without what differs each time."""
    status, fields, body = answer
    return status, {k: v for k, v in fields.items() if k not in ("date", "x-request-id")}, body


OTHERS = {
    "another test": (HINGE, LATCH),
    "executions of another test": (f"{HINGE}/executions", f"{LATCH}/executions?per_page=1"),
    "an unknown failure": (f"{HINGE}/failures", f"{UNKNOWN}/failures"),
    "an unknown test": (HINGE, UNKNOWN),
    "an id in capitals": (HINGE, HINGE[:-36] + HINGE[-36:].upper()),
    "an unknown parameter": (HINGE, f"{HINGE}?verbose=1&x"),
    "an empty query": (HINGE, f"{HINGE}?"),
    "another page size": (SEARCH + "?test_name=*", SEARCH + "?test_name=*&per_page=1"),
    "a wrong page size": (SEARCH + "?test_name=*", SEARCH + "?test_name=*&per_page=0"),
    "no parameters": (SEARCH + "?test_name=*", SEARCH),
    "a wrong cursor": (LOGS, f"{LOGS}?cursor=abc"),
    "other quarantines": (QUARANTINES, f"{QUARANTINES}?branch=main"),
    "an unknown quarantine": (f"{QUARANTINES}?branch=x", f"{QUARANTINES}?branch=%00"),
}


@IN_MEMORY
@pytest.mark.parametrize("case", OTHERS)
async def test_a_direct_read_gets_what_a_parsed_request_gets(wire: Wire, case: str) -> None:
    first, other = OTHERS[case]
    await learn(wire, first)
    direct = await wire.ask(wire.head(other))
    assert wire.unparsed == 1
    # Fields that were never sent before are parsed.
    parsed = await wire.ask(wire.head(other, f"X-New: {uuid.uuid4()}"))
    assert wire.unparsed == 1
    assert plain(direct) == plain(parsed)
    assert direct[1]["x-request-id"] != parsed[1]["x-request-id"]
    assert (await wire.ask(wire.head(first)))[0] == 200


@IN_MEMORY
@pytest.mark.parametrize("operation", operations())
async def test_every_operation_may_be_read_directly(wire: Wire, operation: str) -> None:
    target = operations()[operation].replace(A_TEST_ID, HINGE[-36:])
    # What has a response of its own is not learned from a 404.
    expected = (await wire.ask(wire.head(target)))[0] == 200
    await learn(wire, target)
    joined = "&" if "?" in target else "?"
    one = f"{target}{joined}none=1"
    direct, parsed = await wire.ask(wire.head(one)), await wire.ask(wire.head(one, "X-New: 1"))
    assert wire.unparsed == expected
    assert plain(direct) == plain(parsed)


@IN_MEMORY
@pytest.mark.parametrize(
    "target",
    [
        HINGE.replace("acme", "%61cme"),
        HINGE + "#a",
        HINGE.replace("/v1", "//v1"),
        HINGE.replace("/tests/", "/tests//"),
        HINGE + "/",
        HINGE.replace("/tests/", "/quarantines/"),
        # An id of another version.
        HINGE[:-22] + "4" + HINGE[-21:],
        HINGE.replace("widgets", "gadgets"),
        HINGE.replace("widgets", "unknown"),
        HINGE.replace("acme", "other"),
        # An owner that looks like an id.
        HINGE.replace("acme", A_TEST_ID),
        HINGE.replace("acme/repositories/widgets", f"acme/repositories/{A_TEST_ID}"),
        "http://a" + HINGE,
    ],
)
async def test_another_spelling_or_path_takes_the_usual_way(wire: Wire, target: str) -> None:
    await learn(wire, HINGE)
    usual = await wire.ask(wire.head(target))
    assert wire.unparsed == 0
    assert plain(usual) == plain(await wire.ask(wire.head(target, "X-New: 1")))


@IN_MEMORY
@pytest.mark.parametrize(
    "field",
    [
        "X-Request-Id: mine",
        "Content-Length: 5",
        "Connection: close",
        "Upgrade: h2c",
        "Expect: x",
        "Accept: application/x-ndjson",
        "Host: b",
        "Authorization: Bearer x",
    ],
)
async def test_requests_with_other_fields_take_the_usual_way(wire: Wire, field: str) -> None:
    await learn(wire, SEARCH + "?test_name=*")
    for number in range(3):
        other = await Wire.open(wire.door)
        head = other.head(f"{SEARCH}?test_name=*&per_page={number + 1}", field)
        other.writer.write(head + (b"hello" if "Length" in field else b""))
        start = await other.reader.readuntil(b"\r\n\r\n")
        assert start.startswith(b"HTTP/1.")
        await other.close()
    assert wire.unparsed == 0


@on_every_stack
async def test_a_revoked_key_is_refused_at_once(wire: Wire) -> None:
    door = wire.door
    door.key = await door.add_key(key_id="k1")
    await learn(wire, HINGE)
    await door.store.revoke_key("k1", after())
    assert (await wire.ask(wire.head(UNKNOWN)))[0] == 403


@pytest.mark.parametrize("stack", ["sqlite"], indirect=True)
async def test_a_key_that_another_process_revokes_is_refused_at_once(wire: Wire) -> None:
    door = wire.door
    door.key = await door.add_key(key_id="k1")
    await learn(wire, HINGE)
    assert (await wire.ask(wire.head(UNKNOWN)))[0] == 404
    await door.command("keys", "revoke", "k1")
    assert (await wire.ask(wire.head(UNKNOWN)))[0] == 403


@on_every_stack
async def test_an_expired_key_is_refused(wire: Wire) -> None:
    door = wire.door
    door.key = await door.add_key(expires_at=after(hours=2))
    await learn(wire, HINGE)
    door.clock.now = after(hours=2)
    assert (await wire.ask(wire.head(UNKNOWN)))[0] == 403


@on_every_stack
async def test_each_credential_keeps_its_own_access(wire: Wire) -> None:
    door = wire.door
    reading = door.key
    await learn(wire, HINGE)
    for scope, owner, repository, status in (
        (Scope.INGEST, "acme", None, 403),
        (Scope.READ, "other", None, 404),
        (Scope.READ, "acme", "gadgets", 404),
        (Scope.READ, "acme", "widgets", 200),
    ):
        door.key = await door.new_key(scope, owner, repository)
        for _ in range(3):
            assert (await wire.ask(wire.head(HINGE)))[0] == status
    door.key = reading
    assert (await wire.ask(wire.head(UNKNOWN)))[0] == 404


@on_every_stack
async def test_a_write_shows_in_the_next_answer(wire: Wire) -> None:
    await learn(wire, QUARANTINES)
    await wire.door.store.add_quarantine(WIDGETS, QuarantineRequest("hinge", "flaps"), NOON)
    assert b"flaps" in (await wire.ask(wire.head(f"{QUARANTINES}?branch=main")))[2]


@IN_MEMORY
async def test_repeated_direct_reads_become_repeated_requests(wire: Wire) -> None:
    await learn(wire, HINGE)
    other = wire.head(LATCH)
    answers = [plain(await wire.ask(other)) for _ in range(8)]
    assert answers == [answers[0]] * 8
    # The last ones were answered from the response cache, before anything was read.
    assert 1 <= wire.unparsed < 8
    tag = answers[0][1]["etag"]
    poll = wire.head(LATCH, f"If-None-Match: {tag}")
    assert [(await wire.ask(poll))[0] for _ in range(4)] == [304] * 4


async def test_metrics_and_limits_count_direct_reads(tmp_path: object, stack: Settings) -> None:
    settings = replace(stack, metrics=True, rate_limit="5/hour")
    async for door in open_door(settings):
        await load_names(door.store, ["hinge"])
        wire = await Wire.open(door)
        statuses = [(await wire.ask(wire.head(f"{HINGE}?n={n}")))[0] for n in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        text = (await door.get("/metrics")).body.decode()
        assert 'mergewatch_requests_total{operation="test",status="200"} 5.0' in text
        assert 'mergewatch_requests_total{operation="test",status="429"} 2.0' in text
        await wire.close()
