"""Results and events from wrong clocks: refused with a reason, and answers stay unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

import orjson

from hardening.bodies import NDJSON, make_result
from hardening.findings import Finding, brief
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection
from hardening.scenarios.shared_file import write_events
from hardening.seeding import SeededRepository, seed_new_store
from hardening.tenants import path_of
from indexing.identifiers import derive_test_id
from indexing.models.keys import Scope
from indexing.timestamps import format_timestamp, to_microseconds
from tests.places import Place

_TEST: Final = "clock.test"
_OLD: Final = "clock.old"
# The requests for both tests, in this order.
_REQUESTS: Final = (_TEST, f"search for {_TEST}", _OLD, f"search for {_OLD}")
_LATEST: Final = 2**63 - 1
_EARLIEST: Final = 1


@dataclass
class _Clocks:
    """A service, one flaky test, and the outcomes of wrong clocks."""

    harness: Harness
    place: Place
    seeded: SeededRepository
    connection: RawConnection
    key: str = field(repr=False)
    now: datetime
    _sent: int = 0

    async def send(self, name: str, conclusion: str, nanoseconds: int) -> tuple[int, str]:
        """Send one result; return the number of rejected spans and the message."""
        self._sent += 1
        body = make_result(name, conclusion, nanoseconds, self._sent)
        answer = await self._post("traces", "application/json", body)
        said = answer.get("partialSuccess", {})
        return int(said.get("rejectedSpans", 0)), str(said.get("errorMessage", ""))

    async def send_event(self, received_at: str) -> tuple[int, str]:
        """Send one event; return the number of refused lines and the message."""
        self._sent += 1
        folder = self.harness.new_folder("event")
        line = write_events(folder / "event", self._sent, 1, self.now).read_bytes()
        body = orjson.dumps({**orjson.loads(line), "received_at": received_at})
        answer = await self._post("logs", NDJSON, body)
        return answer["refused"], orjson.dumps(answer["refusals"]).decode()

    async def _post(self, to: str, kind: str, body: bytes) -> dict[str, Any]:
        path = path_of(self.seeded, to)
        headers = (b"Content-Type: " + kind.encode(),)
        response = await self.connection.request(path, self.key, *headers, method="POST", body=body)
        if response.status != HTTPStatus.OK:
            raise RuntimeError(f"{response.status} to {path}: {response.body[:200]!r}")
        answer: dict[str, Any] = orjson.loads(response.body)
        return answer

    async def answers(self, *names: str) -> list[bytes]:
        """Return the current detail and search results of these tests."""
        self._sent += 1
        owner, name = self.seeded.name.owner, self.seeded.name.name
        ci = f"/v1/ci/{owner}/repositories/{name}"
        found = []
        for test in names:
            test_id = derive_test_id(self.seeded.name, test)
            for target in (f"{ci}/tests/{test_id}?", f"{ci}/search/tests?test_name={test}&"):
                response = await self.connection.request(f"{target}unseen={self._sent}", self.key)
                found.append(response.body)
        return found

    async def ingest_report(self, timestamp: str, *words: str) -> tuple[int, str]:
        """Run `ingest junit` on a report with that timestamp."""
        report = self.harness.new_folder("report") / "report.xml"
        case = f'<testcase classname="clock" name="test" timestamp="{timestamp}" time="1"/>'
        report.write_text(f"<testsuite>{case}</testsuite>", encoding="utf-8")
        self._sent += 1
        status, _, said = await self.harness.command(
            self.place,
            *("ingest", "junit", str(report), "--repository", str(self.seeded.name)),
            *("--branch", "main", "--commit", f"c{self._sent}", "--pipeline", "ci"),
            *("--job", "unit", "--run-id", str(self._sent), *words),
        )
        return status, said


async def run(harness: Harness, *, stores: Sequence[str] = STORES) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"], scope=Scope.ADMIN)
        async with harness.serve(place, ingest="true", log_level="info") as running:
            connection = RawConnection(running.port)
            now = datetime.now(UTC).replace(microsecond=0)
            clocks = _Clocks(harness, place, seeded, connection, key, now)
            found += [await _spans(clocks, store), await _events(clocks, store)]
            found.append(await _reports(clocks, store))
            connection.abort()
    return found


async def _spans(clocks: _Clocks, store: str) -> Finding:
    now = to_microseconds(clocks.now) * 1_000
    hour = 3_600 * 10**9
    for conclusion in ("passed", "failed", "passed", "failed", "passed"):
        # A test that fails and passes in turn is flaky.
        now += 10**9
        await clocks.send(_TEST, conclusion, now - 2 * hour)
        await clocks.send(_OLD, "passed", now - 2 * hour)
    before = await clocks.answers(_TEST, _OLD)
    wrong = {
        "skipped, of 2262": (_TEST, "skipped", _LATEST),
        "passed, two days ahead": (_TEST, "passed", now + 48 * hour),
        "failed, of 1970": (_OLD, "failed", _EARLIEST),
        "failed, of 1999": (_OLD, "failed", 946_684_799 * 10**9),
    }
    accepted, unnamed = [], []
    for what, (name, conclusion, nanoseconds) in wrong.items():
        rejected, said = await clocks.send(name, conclusion, nanoseconds)
        accepted += [what] * (rejected != 1)
        unnamed += [f"{what}: {said or 'nothing said'}"] * ("spans[0]" not in said)
    after = await clocks.answers(_TEST, _OLD)
    differ = [
        f"{name}: {_differences(old, new)}"
        for name, old, new in zip(_REQUESTS, before, after, strict=True)
        if old != new
    ]
    # A clock that is slightly ahead is accepted.
    ahead, said = await clocks.send(_TEST, "passed", now + 12 * hour)
    return Finding(
        f"spans with wrong times, {store}",
        f"{len(wrong)} sent: {len(wrong) - len(accepted)} refused, {len(unnamed)} without a "
        f"position; "
        f"{len(differ)} of {len(before)} responses changed; half a day ahead "
        f"{'refused' if ahead else 'accepted'}",
        "all refused, each with its position, 0 changed; half a day ahead accepted",
        not (accepted or unnamed or differ or ahead),
        "; ".join([*(f"accepted: {what}" for what in accepted), *differ[:2], *unnamed[:1]]),
    )


def _differences(old: bytes, new: bytes) -> str:
    """Return the members of an answer that changed."""
    before, after = orjson.loads(old), orjson.loads(new)
    changed = (name for name in before if before[name] != after.get(name))
    return ", ".join(f"{name} {before[name]} became {after.get(name)}" for name in changed)


async def _events(clocks: _Clocks, store: str) -> Finding:
    soon = format_timestamp(clocks.now + timedelta(hours=48))
    wrong = ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1999-12-31T23:59:59.999Z"]
    wrong += [soon, "9999-12-31T23:59:59Z"]
    accepted, unnamed = [], []
    for moment in wrong:
        refused, said = await clocks.send_event(moment)
        accepted += [moment] * (refused != 1)
        unnamed += [f"{moment}: {said}"] * (refused == 1 and "received_at" not in said)
    right = ["2000-01-01T00:00:00Z", format_timestamp(clocks.now + timedelta(hours=12))]
    lost = [moment for moment in right if (await clocks.send_event(moment))[0]]
    return Finding(
        f"events with wrong times, {store}",
        f"{len(wrong)} sent: {len(wrong) - len(accepted)} refused, {len(unnamed)} without the "
        f"member; "
        f"{len(lost)} of {len(right)} at the limits refused",
        "all refused with the name of the member, 0 at the limits",
        not (accepted or unnamed or lost),
        "; ".join([*(f"accepted: {what}" for what in accepted), *unnamed[:1], *lost]),
    )


async def _reports(clocks: _Clocks, store: str) -> Finding:
    before = await clocks.answers(_OLD)
    recent = "2026-01-01T00:00:00"
    given = [
        await clocks.ingest_report(recent, "--started-at", y) for y in ("1970-01-01", "2262-01-01")
    ]
    # An impossible time in a report counts as missing: the file's own time is used.
    status, said = await clocks.ingest_report("0001-01-01T00:00:00")
    detail = orjson.loads((await clocks.answers(_TEST))[0])
    right = before == await clocks.answers(_OLD)
    first = str(detail.get("first_failure_at"))
    last = str(detail.get("last_success_at"))
    plausible = min(first, last) > "2000" and last < format_timestamp(
        clocks.now + timedelta(days=1)
    )
    causes = [brief(text) for code, text in given if code == 0]
    causes += [brief(said)] * (status != 0)
    return Finding(
        f"reports with wrong times, {store}",
        f"`--started-at` of 1970 and 2262: exit status {given[0][0]} and {given[1][0]}; a "
        f"timestamp of year 1 within: {status}; last success at {last}",
        "refused, refused, 0, a plausible time",
        all(code != 0 for code, _ in given) and status == 0 and plausible and right,
        "; ".join(causes),
    )
