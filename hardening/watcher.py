"""Measures how long another tenant waits for a cached response, with and without an attack."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import orjson

from hardening.findings import Finding, milliseconds, percentile
from hardening.harness import ROOT
from hardening.raw_http import NoResponseError, RawConnection

# Seconds: the longest delay that one tenant may cause another.
LONGEST_WAIT: Final = 0.100
BASELINE_SECONDS: Final = 2.0
# The minimum length of a phase, so that its end is measured too.
_MIN_SECONDS: Final = 0.3
_BASELINE: Final = "baseline"
_LAG: Final = "mergewatch_event_loop_lag"
_SAMPLE: Final = re.compile(rf"^({_LAG}\w*)(?:{{([^}}]*)}})? (\S+)", re.MULTILINE)


@dataclass
class Waits:
    """The requests in flight during one phase."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def longest(self) -> float:
        return max(self.seconds, default=0.0)

    def __str__(self) -> str:
        return (
            f"{len(self.seconds):,} reads, longest {milliseconds(self.longest)}, p99 "
            f"{milliseconds(percentile(self.seconds, 0.99))}, {self.failed} failed"
        )


@dataclass
class Watcher:
    """The phases of one watch; the samples are available when the watch is over."""

    samples: list[tuple[float, float, bool]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lag_before: dict[str, float] = field(default_factory=dict)
    lag_after: dict[str, float] = field(default_factory=dict)
    phases: list[tuple[str, float, float]] = field(default_factory=list)

    @asynccontextmanager
    async def during(self, phase: str) -> AsyncIterator[None]:
        """Assign samples to that phase until the context exits; a phase may have several parts."""
        began = time.monotonic()
        try:
            yield
        finally:
            await asyncio.sleep(max(0.0, began + _MIN_SECONDS - time.monotonic()))
            self.phases.append((phase, began, time.monotonic()))

    def waits(self, *phases: str) -> Waits:
        """Return the samples of these phases; without names, of all but the baseline."""
        waits = Waits()
        for began, seconds, is_right in self.samples:
            ended = began + seconds
            for name, start, end in self.phases:
                wanted = name in phases if phases else name != _BASELINE
                if wanted and began < end and ended > start:
                    waits.seconds.append(seconds)
                    waits.failed += not is_right
                    break
        return waits

    def report(self, what: str) -> Finding:
        """Return one finding about all phases of attack, after the watch.

        The cause names the phases that took too long.
        """
        names = dict.fromkeys(name for name, _, _ in self.phases if name != _BASELINE)
        waits, baseline = self.waits(), self.waits(_BASELINE)
        each = {name: self.waits(name) for name in names}
        bad = {name: w for name, w in each.items() if w.longest >= LONGEST_WAIT or w.failed}
        worst = max(each, key=lambda name: each[name].longest, default="nothing")
        causes = [
            f"{name}: {milliseconds(w.longest)}, {w.failed} failed" for name, w in bad.items()
        ]
        return Finding(
            f"another owner's cached read during {what}",
            f"{waits} (longest during {worst}); without attack: {baseline}; the loop's own lag: "
            f"{self.describe_lag()}",
            f"longest under {milliseconds(LONGEST_WAIT)}, 0 failed; the lag is a metric",
            bool(waits.seconds) and not bad and bool(self.lag_after),
            "; ".join([*causes, *self.failures[:2]]),
        )

    def describe_lag(self) -> str:
        """Describe the service's own lag metric, from the baseline's end to the last phase."""
        longest = self.lag_after.get(f"{_LAG}_max_seconds")
        if longest is None:
            return "no metric"
        grown = {
            name: value - self.lag_before.get(name, 0.0) for name, value in self.lag_after.items()
        }
        count = grown.get(f"{_LAG}_seconds_count", 0.0)
        late = count - grown.get(f'{_LAG}_seconds_bucket{{le="0.05"}}', 0.0)
        return f"longest {milliseconds(longest)}, {late:,.0f} of {count:,.0f} above 50.0 ms"


@asynccontextmanager
async def watch(
    port: int, target: str, key: str, *, baseline: float = BASELINE_SECONDS
) -> AsyncIterator[Watcher]:
    """Watch until the context exits, first for the baseline without an attack."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hardening.polling",
        str(port),
        target,
        env={**os.environ, "KEY": key, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("both pipes were requested")
    watcher = Watcher()
    try:
        await process.stdout.readline()
        async with watcher.during(_BASELINE):
            await asyncio.sleep(baseline)
        watcher.lag_before = await read_lag(port)
        yield watcher
        watcher.lag_after = await read_lag(port)
    finally:
        process.stdin.close()
        seen = orjson.loads(await process.stdout.read() or b"{}")
        await process.wait()
    watcher.samples = [tuple(sample) for sample in seen["samples"]]
    watcher.failures = seen["failures"]


async def read_lag(port: int) -> dict[str, float]:
    """Return the event loop's lag by name and labels; nothing if the metric is missing."""
    return {
        name + (f"{{{labels}}}" if labels else ""): float(value)
        for name, labels, value in await read_metrics(port, _SAMPLE)
    }


async def read_metrics(port: int, sample: re.Pattern[str]) -> Iterable[tuple[str, ...]]:
    """Return the matches in the lines of `/metrics`; nothing without an answer."""
    connection = RawConnection(port)
    try:
        response = await connection.request("/metrics")
    except (NoResponseError, OSError, TimeoutError):
        return []
    finally:
        connection.abort()
    return sample.findall(response.body.decode()) if response.status == HTTPStatus.OK else []
