"""A reachable Redis that is not a plain primary: right answers, no delays, one warning."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import orjson

from hardening.bodies import make_result
from hardening.findings import Finding, median, milliseconds
from hardening.harness import Harness, Running
from hardening.raw_http import NoResponseError, RawConnection
from hardening.tenants import Tenants, watched_tenants
from hardening.watcher import read_metrics
from indexing.identifiers import derive_test_id
from indexing.timestamps import to_microseconds
from service.cache.redis_failures import Reason
from tests.servers.ports import HOST
from tests.servers.redis import Redis

WRITES = 15
# Seconds. Only the first write may wait to detect the mode of Redis.
LONG_WAIT: Final = 0.5
MAX_LONG_WAITS: Final = 1
LONGEST_WAIT: Final = 1.0
# The warning names a setting, a command or a page that helps.
_ADVICE: Final = re.compile(r"MERGEWATCH_|docs/|CLUSTER INFO|password|\bACL\b|primary")
_PASSWORD: Final = "hush"
_TEST: Final = "kept.test"
_MAX_WARNINGS: Final = 2
_METRIC: Final = re.compile(r"^(mergewatch_redis_\w+)(?:{([^}]*)})? (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class _Mode:
    """A mode of Redis other than a plain server: the service's settings, and a later step."""

    name: str
    url_of: Callable[[Redis], str] = field(default=lambda redis: redis.url)
    turn: Callable[[Redis], object] = field(default=lambda _: None)
    password: str | None = None
    cluster: bool = False
    prepare: Callable[[Redis], object] = field(default=lambda _: None)


MODES: Final = (
    _Mode("a cluster of one node", cluster=True, prepare=Redis.give_all_slots),
    _Mode("a cluster that is down", cluster=True),
    _Mode("a primary that became a replica", turn=Redis.make_read_only),
    _Mode("a replica from the start", prepare=Redis.make_read_only),
    _Mode(
        "a server whose user may only read",
        url_of=lambda redis: redis.add_user("reader", _PASSWORD, "~*", "-@all", "+@read"),
    ),
    _Mode(
        "a server with a password that the URL lacks",
        url_of=lambda redis: f"redis://{HOST}:{redis.port.number}/0",
        password=_PASSWORD,
    ),
)


async def run(
    harness: Harness, *, writes: int = WRITES, modes: Sequence[_Mode] = MODES
) -> list[Finding]:
    return [finding for mode in modes for finding in await _try(harness, mode, writes)]


async def _try(harness: Harness, mode: _Mode, writes: int) -> list[Finding]:
    place = await harness.new_store("sqlite")
    with ExitStack() as stack:
        redis = stack.enter_context(harness.redis(mode.password, cluster=mode.cluster))
        mode.prepare(redis)
        url = mode.url_of(redis)
        async with watched_tenants(harness, place, redis_url=url) as tenants:
            mode.turn(redis)
            async with tenants.watcher.during(mode.name):
                seconds, wrong = await _write(tenants, writes)
            metrics = await _read_metrics(tenants.port)
        # A plain client reads the dump at the end, so the server has to be whole.
        if not mode.cluster:
            redis.make_whole()
    warnings = _warnings(tenants.running)
    advice = [warning for warning in warnings if _ADVICE.search(warning)]
    usable = metrics.get("mergewatch_redis_usable")
    failures = sum(n for name, n in metrics.items() if name.startswith("mergewatch_redis_failures"))
    late = sum(each > LONG_WAIT for each in seconds)
    # A mode that works needs no advice. The others need one warning that says what to do; a second
    # one may state the consequence, that a change may show late.
    reported = len(advice) == 1 and len(warnings) <= _MAX_WARNINGS and failures > 0 and usable == 0
    served = not advice and usable == 1
    service_errors = tenants.running.service_errors()
    what = f"Redis is {mode.name}"
    return [
        Finding(
            what,
            f"{len(seconds)} writes, each read back at once: {len(wrong)} wrong; median "
            f"{milliseconds(median(seconds))}, longest {milliseconds(max(seconds, default=0.0))}; "
            f"{len(warnings)} warnings, {len(advice)} of them with advice; metrics: "
            f"{'no metric' if usable is None else f'usable {usable:g}, {failures:g} failures'}",
            f"0 wrong, {MAX_LONG_WAITS} over {milliseconds(LONG_WAIT)} at most and none over "
            f"{milliseconds(LONGEST_WAIT)}; Redis is used, or there is one warning with advice "
            "and failures are counted",
            len(seconds) == writes
            and not (wrong or service_errors)
            and late <= MAX_LONG_WAITS
            and max(seconds) < LONGEST_WAIT
            and (reported or served),
            "; ".join([*wrong[:2], *warnings[:2], *service_errors[:1]]),
        ),
        tenants.watcher.report(what),
    ]


async def _write(tenants: Tenants, writes: int) -> tuple[list[float], list[str]]:
    """Send passed and failed results of one test in turn; return write times and wrong reads."""
    connection, seconds, wrong = RawConnection(tenants.port), list[float](), list[str]()
    repository = tenants.sender.name
    path = f"/v1/ci/{repository.owner}/repositories/{repository.name}/tests/"
    target = path + str(derive_test_id(repository, _TEST))
    kind = b"Content-Type: application/json"
    at = to_microseconds(datetime.now(UTC)) * 1_000 - writes * 10**9
    for number in range(1, writes + 1):
        conclusion = ("passed", "failed")[number % 2]
        body = make_result(_TEST, conclusion, at + number * 10**9, number)
        try:
            response = await connection.request(
                tenants.path("traces"), tenants.sender_key, kind, method="POST", body=body
            )
            seconds.append(response.seconds)
            read = await connection.request(target, tenants.sender_key)
        except (NoResponseError, OSError, TimeoutError) as error:
            wrong.append(type(error).__name__)
            continue
        there = orjson.loads(read.body).get("last_conclusion")
        if response.status != HTTPStatus.OK or there != conclusion:
            wrong.append(f"{response.status}, then {read.status} with {there} for {conclusion}")
    connection.abort()
    return seconds, wrong


async def _read_metrics(port: int) -> dict[str, float]:
    return {
        f"{name}{{{labels}}}" if labels else name: float(value)
        for name, labels, value in await read_metrics(port, _METRIC)
    }


def _warnings(running: Running) -> list[str]:
    """Return the warnings about Redis in its log.

    Timeouts are left out: on a busy machine any mode can cause one, and what they delay is judged
    by the seconds of the writes.
    """
    return [
        " ".join(f"{name}={value}" for name, value in line.items() if name not in _VARYING)
        for line in running.lines()
        if line.get("level") == "warning"
        and "redis" in str(line).lower()
        and line.get("reason") != Reason.TIMEOUT.value
    ]


_VARYING: Final = frozenset({"level", "logger", "timestamp", "pid"})
