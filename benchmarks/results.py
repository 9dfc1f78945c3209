"""What was measured, as values, and the ratios that are taken of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from benchmarks.running.profile import Profile


@dataclass(frozen=True, slots=True)
class Round:
    """One stretch of load, and what the floor did right before and after; latencies in seconds."""

    requests_per_second: float
    floor_per_second: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Figure:
    """How fast one stack answers one operation.

    `repeated`: the same request over and over, so that a cache can answer; else another each time.
    """

    operation: str
    stack: str
    repeated: bool
    workers: int
    connections: int
    rounds: tuple[Round, ...]

    @property
    def ratio(self) -> float:
        """Of the floor: the median of the rounds' own ratios, so that noise hits both."""
        return median(r.requests_per_second / r.floor_per_second for r in self.rounds)

    @property
    def requests_per_second(self) -> float:
        """The median of the rounds."""
        return median(r.requests_per_second for r in self.rounds)

    @property
    def p50(self) -> float:
        """The median of the rounds' medians, in seconds."""
        return median(r.p50 for r in self.rounds)

    @property
    def p99(self) -> float:
        """The median over the rounds, in seconds."""
        return median(r.p99 for r in self.rounds)


@dataclass(frozen=True, slots=True)
class Subject:
    """One operation of one stack, for whoever wants to look into it."""

    operation: str
    stack: str
    repeated: bool


@dataclass(frozen=True, slots=True)
class ProfiledSubject:
    """Where a stack spends its time on one operation."""

    subject: Subject
    profile: Profile


@dataclass(frozen=True, slots=True)
class Flood:
    """The p99 of test detail in seconds, by itself and with slow searches beside it, by round."""

    alone: tuple[float, ...]
    flooded: tuple[float, ...]
    searches_per_second: float

    @property
    def ratio(self) -> float:
        """How many times its p99 alone it takes under the flood."""
        return median(f / a for a, f in zip(self.alone, self.flooded, strict=True))


@dataclass(frozen=True, slots=True)
class Memory:
    """The resident memory of one worker in bytes, after each of equal portions of requests."""

    requests: int
    resident: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """The end against the middle: 1 where nothing is added any more."""
        return self.resident[-1] / self.resident[len(self.resident) // 2]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one operation costs over a store of one size.

    `floors` is in requests of the floor, `p50` in seconds; `series` tells what it is that grows.
    """

    series: str
    operation: str
    size: int
    floors: float
    p50: float


@dataclass(frozen=True, slots=True)
class Speed:
    """How much of one kind is loaded in a second in one way; the first way is the base."""

    kind: str
    way: str
    per_second: float


@dataclass(frozen=True, slots=True)
class Results:
    """All of one run; a part that was left out is empty or `None`."""

    figures: tuple[Figure, ...] = ()
    flood: Flood | None = None
    memory: Memory | None = None
    costs: tuple[Cost, ...] = ()
    speeds: tuple[Speed, ...] = ()
    # What loading the real reports takes, times the least that it could.
    reports_ratio: float | None = None
    hottest: tuple[ProfiledSubject, ...] = ()
    # What did not come to a figure, and why.
    failures: tuple[str, ...] = ()
    # When each part was measured, in the order of the parts.
    dates: Mapping[str, str] = field(default_factory=dict)

    def find(
        self,
        operation: str,
        stack: str,
        *,
        repeated: bool,
        workers: int = 1,
        connections: int | None = None,
    ) -> Figure | None:
        """The figure of that measurement, if it was made; the highest number of connections."""
        found = [
            figure
            for figure in self.figures
            if (figure.operation, figure.stack) == (operation, stack)
            and (figure.repeated, figure.workers) == (repeated, workers)
            and connections in (None, figure.connections)
        ]
        return max(found, key=lambda figure: figure.connections, default=None)


def compare(one: Figure, other: Figure) -> float:
    """How many times the speed of `other` one is: the median over the rounds of their ratios.

    Each is held against its own floor first: the two were not measured in the same moment.
    """
    return median(
        (a.requests_per_second / a.floor_per_second) / (b.requests_per_second / b.floor_per_second)
        for a, b in zip(one.rounds, other.rounds, strict=True)
    )
