"""Numbers beyond common limits, and invalid text: stored exactly, or refused with the name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import orjson

from hardening.findings import Finding
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection, Response
from hardening.seeding import SeededRepository, seed_new_store
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


async def run(harness: Harness, *, stores: Sequence[str] = STORES) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"], scope=Scope.ADMIN)
        async with harness.serve(place, ingest="true") as running:
            connection = RawConnection(running.port)
            found.append(await _numbers(connection, key, store))
            found.append(await _texts(connection, key, seeded, store))
            found.append(await _sent_texts(connection, key, store))
            connection.abort()
        if service_errors := running.service_errors():
            raise AssertionError(service_errors[0])
    return found


async def _numbers(connection: RawConnection, key: str, store: str) -> Finding:
    wrong: list[str] = []
    for number in (*KEPT, *REFUSED):
        text = str(number).encode()
        response = await _send(connection, key, _event(id=text, pull_request=text))
        if number in KEPT:
            page = await connection.request(f"{LOGS}?pull_request={number}", key)
            there = [
                (event["id"], event["pull_request"])
                for event in orjson.loads(page.body).get("events", ())
            ]
            if there != [(number, number)]:
                wrong.append(f"{number}: {page.status} {there}")
        else:
            page = await connection.request(f"{LOGS}?pull_request={number}", key)
            refused = (
                response.status == HTTPStatus.OK and orjson.loads(response.body)["refused"] == 1
            )
            if not refused or page.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                wrong.append(f"{number}: {response.status} {page.status}")
    return Finding(
        f"numbers near 2^53, 2^63 and 2^64, {store}",
        f"{len(KEPT)} returned exactly, {len(REFUSED)} refused: {len(wrong)} wrong",
        "0 wrong",
        not wrong,
        "; ".join(wrong[:3]),
    )


async def _texts(
    connection: RawConnection, key: str, seeded: SeededRepository, store: str
) -> Finding:
    wrong: list[str] = []
    requests = 0
    for operation, names in PARAMETERS.items():
        target = seeded.targets()[operation].partition("?")[0]
        for name in names:
            beside = "&test_name=a" * (operation == "search" and name != "test_name")
            for text in (*NO_TEXTS, *ODD_TEXTS):
                response = await connection.request(f"{target}?{name}={text}{beside}", key)
                requests += 1
                fine = {HTTPStatus.UNPROCESSABLE_ENTITY}
                if text in ODD_TEXTS:
                    fine.add(HTTPStatus.OK)
                if response.status not in fine:
                    wrong.append(f"{response.status} to {name}={text} of {operation}")
    for target in seeded.targets().values():
        path, _, query = target.partition("?")
        parts = path.split("/")
        for at in range(2, len(parts)):
            for text in (*NO_TEXTS, *ODD_TEXTS):
                changed = "/".join([*parts[:at], parts[at] + text, *parts[at + 1 :]])
                response = await connection.request(f"{changed}?{query}", key)
                requests += 1
                if response.status not in (400, 404, 405, 422):
                    wrong.append(f"{response.status} to {changed}")
    return Finding(
        f"lone surrogates, bad UTF-8, NUL, %0d%0a in a request, {store}",
        f"{requests} requests: {len(wrong)} accepted or answered with a 5xx",
        "0",
        not wrong,
        "; ".join(wrong[:3]),
    )


async def _sent_texts(connection: RawConnection, key: str, store: str) -> Finding:
    wrong: list[str] = []
    for number, (member, value) in enumerate(SENT):
        line = _event(**{"id": b"%d" % (9_000 + number), member: value})
        response = await _send(connection, key, line)
        if response.status != HTTPStatus.OK or orjson.loads(response.body)["refused"] != 1:
            wrong.append(f"{response.status} {response.body[:80]!r} to {member}: {value[:40]!r}")
    return Finding(
        f"the same in uploaded events, {store}",
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


async def _send(connection: RawConnection, key: str, body: bytes) -> Response:
    kind = b"Content-Type: application/x-ndjson"
    return await connection.request(LOGS, key, kind, method="POST", body=body)
