"""A cluster that refuses to create indices: no valid data is refused, and all of it lands later."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

import orjson

from hardening.bodies import NDJSON, make_spans
from hardening.findings import Finding, brief
from hardening.harness import Harness
from hardening.raw_http import NoResponseError, RawConnection
from hardening.scenarios.shared_file import write_events
from hardening.seeding import SeededRepository, seed_new_store
from hardening.tenants import path_of
from hardening.walking import walk_events
from indexing.identifiers import derive_test_id
from indexing.models.keys import Scope
from indexing.store import ElasticsearchPlace
from indexing.timestamps import format_timestamp
from tests.places import Place
from tests.servers.elasticsearch import Node

EVENTS = 547
HEAP = "256m"
_REFUSED: Final = re.compile(r"^refused", re.MULTILINE)
_REPORT: Final = '<testsuite><testcase classname="reported" name="one" time="1"/></testsuite>'
_REPORTED: Final = "reported.one"
_SENT: Final = "suite.test_000000"


@dataclass
class _Tried:
    """The outcome of one way to send data."""

    is_accepted: bool
    is_unavailable: bool
    said: str = ""

    def __str__(self) -> str:
        return (
            "accepted" if self.is_accepted else "unavailable" if self.is_unavailable else "REFUSED"
        )


@dataclass
class _Load:
    """The data to send, all of it from months without an index."""

    harness: Harness
    place: Place
    seeded: SeededRepository
    key: str = field(repr=False)
    events: int

    async def run(self) -> dict[str, _Tried]:
        """Try every way once; dead letters count as refused."""
        folder = self.harness.new_folder("load")
        now = datetime.now(UTC).replace(microsecond=0)
        # Each way uses its own month, since the first write may create the index for the others.
        file = write_events(folder / "events.ndjson", 7, self.events, now - timedelta(days=35))
        sent = write_events(folder / "sent.ndjson", 8, self.events, now - timedelta(days=65))
        report = folder / "report.xml"
        report.write_text(_REPORT, encoding="utf-8")
        dead = folder / "dead"
        found = {
            "ingest events": await self._type(
                "ingest", "events", str(file), "--dead-letter", str(dead)
            )
        }
        if dead.exists() and (letters := dead.read_bytes().count(b"\n")):
            found["ingest events"] = _Tried(
                is_accepted=False, is_unavailable=False, said=f"{letters} dead letters"
            )
        about = ["--repository", str(self.seeded.name), "--branch", "main", "--commit", "c"]
        about += ["--pipeline", "ci", "--job", "unit", "--run-id", "1"]
        about += ["--started-at", format_timestamp(now - timedelta(days=35))]
        found["ingest junit"] = await self._type("ingest", "junit", str(report), *about)
        async with self.harness.serve(self.place, ingest="true", log_level="info") as running:
            connection = RawConnection(running.port)
            found["POST logs"] = await self._send(connection, "logs", NDJSON, sent.read_bytes())
            spans = make_spans(0, 1, now - timedelta(days=65))
            found["POST traces"] = await self._send(connection, "traces", "application/json", spans)
            connection.abort()
        if service_errors := running.service_errors():
            found["the service's log"] = _Tried(
                is_accepted=False, is_unavailable=False, said=brief(service_errors[0])
            )
        return found

    async def _type(self, *words: str) -> _Tried:
        status, _, said = await self.harness.command(self.place, *words)
        clear = "Traceback" not in said and not _REFUSED.search(said) and "Error:" in said
        last = brief((said.strip().splitlines() or [""])[-1])
        return _Tried(is_accepted=status == 0, is_unavailable=status != 0 and clear, said=last)

    async def _send(self, connection: RawConnection, to: str, kind: str, body: bytes) -> _Tried:
        headers = (b"Content-Type: " + kind.encode(),)
        try:
            response = await connection.request(
                path_of(self.seeded, to), self.key, *headers, method="POST", body=body
            )
        except (NoResponseError, OSError, TimeoutError) as error:
            return _Tried(is_accepted=False, is_unavailable=False, said=type(error).__name__)
        answer: Mapping[str, Any] = orjson.loads(response.body)
        return _Tried(
            is_accepted=response.status == HTTPStatus.OK
            and not answer.get("refused")
            and not answer.get("partialSuccess"),
            is_unavailable=response.status == HTTPStatus.SERVICE_UNAVAILABLE
            and response.header("retry-after") is not None,
            said=f"{response.status} {response.body[:160].decode(errors='replace')}",
        )

    async def count_missing(self) -> list[str]:
        """Return the data that was sent and is missing."""
        missing = []
        async with self.harness.serve(self.place, log_level="info") as running:
            now = datetime.now(UTC)
            start, end = now - timedelta(days=70), now - timedelta(days=30)
            there = len(await walk_events(running.port, self.key, self.seeded, start, end))
            if there != 2 * self.events:
                missing.append(f"{there} of {2 * self.events} events are there")
            connection = RawConnection(running.port)
            owner, name = self.seeded.name.owner, self.seeded.name.name
            for test in (_REPORTED, _SENT):
                target = f"/v1/ci/{owner}/repositories/{name}/tests/"
                response = await connection.request(
                    target + str(derive_test_id(self.seeded.name, test)), self.key
                )
                if response.status != HTTPStatus.OK:
                    missing.append(test)
            connection.abort()
        return missing


async def run(harness: Harness, *, events: int = EVENTS) -> list[Finding]:
    found = []
    with harness.own_node(HEAP) as node:
        for number, (what, restrict) in enumerate(
            (
                ("`action.auto_create_index: false`", _forbid),
                ("the shard limit", _limit),
            )
        ):
            place = ElasticsearchPlace((node.url,), f"new-{number}")
            (seeded,), key = await seed_new_store(
                harness, place, ["acme/widgets"], scope=Scope.ADMIN
            )
            load = _Load(harness, place, seeded, key, events)
            settings = await asyncio.to_thread(restrict, node)
            try:
                tried = await load.run()
            finally:
                await asyncio.to_thread(_set, node, dict.fromkeys(settings))
            lifted = await load.run()
            missing = await load.count_missing()
            refused = [f"{way}: {t.said}" for way, t in tried.items() if str(t) == "REFUSED"]
            late = [
                f"{way}, afterwards: {t.said}" for way, t in lifted.items() if not t.is_accepted
            ]
            found.append(
                Finding(
                    f"{what}, {events} events, a report, a span",
                    f"{_list(tried)}; after it is lifted: {_list(lifted)}; missing: "
                    f"{', '.join(missing) or 'nothing'}",
                    "accepted or unavailable, none refused; after it is lifted all accepted, none "
                    "missing",
                    not refused and not late and not missing,
                    "; ".join([*refused, *late]) or _said(tried),
                )
            )
    return found


def _forbid(node: Node) -> Mapping[str, object]:
    return _set(node, {"action.auto_create_index": "false"})


def _limit(node: Node) -> Mapping[str, object]:
    """Set the shard limit to the current number of shards."""
    _, health = node.ask("/_cluster/health")
    return _set(node, {"cluster.max_shards_per_node": health["active_shards"]})


def _set(node: Node, settings: Mapping[str, object]) -> Mapping[str, object]:
    status, answer = node.ask("/_cluster/settings", "PUT", {"persistent": settings})
    if status != HTTPStatus.OK:
        raise RuntimeError(f"the cluster refuses {settings}: {answer}")
    return settings


def _list(tried: Mapping[str, _Tried]) -> str:
    return ", ".join(f"{way} {what}" for way, what in tried.items())


def _said(tried: Mapping[str, _Tried]) -> str:
    return "; ".join(dict.fromkeys(t.said for t in tried.values() if t.is_unavailable))
