"""Numbers beyond common limits, and invalid text: stored exactly, or refused with the name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import orjson

from hardening.findings import Finding
from hardening.ground import STORES, Ground
from hardening.stock import Stock, prepared
from hardening.wire import Told, Wire
from indexing.models.keys import Scope
from indexing.timestamps import format_timestamp

KEPT = (0, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1)
REFUSED = (2**63, 2**63 + 1, 2**64 - 1, 2**64, 2**64 + 1, 10**40, -1)
LOGS = "/v1/repos/acme/widgets/logs"
# Percent-encoded or raw; text that is valid in a name may be refused elsewhere, never with a 5xx.
NO_TEXTS = (
    "%ED%A0%80",
    "%ED%BF%BF",
    "%FF",
    "%C0%80",
    "%C3%28",
    "%F4%90%80%80",
    "%E2%82",
    "%00",
    "a%00b",
)
ODD_TEXTS = ("%0d%0a", "%0D%0AX-A:%20b", "%F0%9F%94%A5", "%EF%BF%BF", "%25", "%", "%zz", "%u0000")
# Members of an event with invalid values.
SENT = (
    ("trigger", b'"\\ud800"'),
    ("trigger", b'"a\\u0000b"'),
    ("trigger", b'"\xff"'),
    ("trigger", b'"\xed\xa0\x80"'),
    ("trigger", b'"\xc0\x80"'),
    ("trigger", b"NaN"),
    ("base_ref", b'"\\udfff"'),
    ("id", b"1e400"),
    ("id", b"9007199254740993.0"),
    ("metadata", b'{"\\ud800": 1}'),
    ("metadata", b'{"a": ["\\u0000"]}'),
    ("metadata", b"[" * 100_000),
)
PARAMETERS = {
    "events": ("base_ref", "event_type", "pull_request", "received_from", "cursor", "per_page"),
    "search": ("test_name", "pipeline_name", "job_name_exclude", "sort", "cursor"),
    "quarantines": ("branch", "test_id", "source", "include", "cursor"),
}


async def run(ground: Ground, *, stores: Sequence[str] = STORES) -> list[Finding]:
    found = []
    for store in stores:
        place = await ground.place(store)
        (stock,), key = await prepared(ground, place, ["acme/widgets"], scope=Scope.ADMIN)
        async with ground.serve(place, ingest="true") as running:
            wire = Wire(running.port)
            found.append(await _numbers(wire, key, store))
            found.append(await _texts(wire, key, stock, store))
            found.append(await _sent_texts(wire, key, store))
            wire.abort()
        if mistakes := running.mistakes():
            raise AssertionError(mistakes[0])
    return found


async def _numbers(wire: Wire, key: str, store: str) -> Finding:
    wrong: list[str] = []
    for number in (*KEPT, *REFUSED):
        text = str(number).encode()
        told = await _send(wire, key, _event(id=text, pull_request=text))
        if number in KEPT:
            page = await wire.ask(f"{LOGS}?pull_request={number}", key)
            there = [
                (event["id"], event["pull_request"])
                for event in orjson.loads(page.body).get("events", ())
            ]
            if there != [(number, number)]:
                wrong.append(f"{number}: {page.status} {there}")
        else:
            page = await wire.ask(f"{LOGS}?pull_request={number}", key)
            refused = told.status == HTTPStatus.OK and orjson.loads(told.body)["refused"] == 1
            if not refused or page.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                wrong.append(f"{number}: {told.status} {page.status}")
    return Finding(
        f"numbers about 2^53, 2^63 and 2^64, {store}",
        f"{len(KEPT)} given back exactly, {len(REFUSED)} refused: {len(wrong)} wrong",
        "0 wrong",
        not wrong,
        "; ".join(wrong[:3]),
    )


async def _texts(wire: Wire, key: str, stock: Stock, store: str) -> Finding:
    wrong: list[str] = []
    asked = 0
    for operation, names in PARAMETERS.items():
        target = stock.targets()[operation].partition("?")[0]
        for name in names:
            beside = "&test_name=a" * (operation == "search" and name != "test_name")
            for text in (*NO_TEXTS, *ODD_TEXTS):
                told = await wire.ask(f"{target}?{name}={text}{beside}", key)
                asked += 1
                fine = {HTTPStatus.UNPROCESSABLE_ENTITY}
                if text in ODD_TEXTS:
                    fine.add(HTTPStatus.OK)
                if told.status not in fine:
                    wrong.append(f"{told.status} to {name}={text} of {operation}")
    for target in stock.targets().values():
        path, _, query = target.partition("?")
        parts = path.split("/")
        for at in range(2, len(parts)):
            for text in (*NO_TEXTS, *ODD_TEXTS):
                changed = "/".join([*parts[:at], parts[at] + text, *parts[at + 1 :]])
                told = await wire.ask(f"{changed}?{query}", key)
                asked += 1
                if told.status not in (400, 404, 405, 422):
                    wrong.append(f"{told.status} to {changed}")
    return Finding(
        f"lone surrogates, bad UTF-8, NUL, %0d%0a in a request, {store}",
        f"{asked} requests: {len(wrong)} taken for text or answered by a 5xx",
        "0",
        not wrong,
        "; ".join(wrong[:3]),
    )


async def _sent_texts(wire: Wire, key: str, store: str) -> Finding:
    wrong: list[str] = []
    for number, (member, value) in enumerate(SENT):
        line = _event(**{"id": b"%d" % (9_000 + number), member: value})
        told = await _send(wire, key, line)
        if told.status != HTTPStatus.OK or orjson.loads(told.body)["refused"] != 1:
            wrong.append(f"{told.status} {told.body[:80]!r} to {member}: {value[:40]!r}")
    return Finding(
        f"the same in what is sent, {store}",
        f"{len(SENT)} lines: {len(wrong)} not refused",
        "0",
        not wrong,
        "; ".join(wrong[:3]),
    )


def _event(**members: bytes) -> bytes:
    """Build the line of an event with these members in place of valid ones."""
    good = {
        "id": b"1",
        "received_at": orjson.dumps(format_timestamp(datetime.now(UTC) - timedelta(minutes=5))),
        "trigger": b'"rule"',
        "repository": b'"acme/widgets"',
        "pull_request": b"null",
        "base_ref": b"null",
        "type": b'"action.rebase"',
        "metadata": b"{}",
    }
    parts = (b'"%s": %s' % (name.encode(), value) for name, value in (good | members).items())
    return b"{" + b", ".join(parts) + b"}\n"


async def _send(wire: Wire, key: str, body: bytes) -> Told:
    kind = b"Content-Type: application/x-ndjson"
    return await wire.ask(LOGS, key, kind, method="POST", body=body)
