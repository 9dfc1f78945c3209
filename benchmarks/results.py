"""The results as values, and ratios between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from benchmarks.running.profile import Profile


@dataclass(frozen=True, slots=True)
class Round:
    """One period of load, and the rate of the floor around it; latencies in seconds.

    The floor is a bare aiohttp handler that answers with a constant of the same size.
    """

    requests_per_second: float
    floor_per_second: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Figure:
    """The performance of one stack for one operation.

    `repeated` means the same request each time, so a cache can answer; else all requests differ.
    """

    operation: str
    stack: str
    repeated: bool
    workers: int
    connections: int
    rounds: tuple[Round, ...]

    @property
    def ratio(self) -> float:
        """Return the median of the ratios to the floor: noise of a round affects both alike."""
        return median(r.requests_per_second / r.floor_per_second for r in self.rounds)

    @property
    def requests_per_second(self) -> float:
        """Return the median of all rounds."""
        return median(r.requests_per_second for r in self.rounds)

    @property
    def p50(self) -> float:
        """Return the median of the rounds' medians, in seconds."""
        return median(r.p50 for r in self.rounds)

    @property
    def p99(self) -> float:
        """Return the median of the rounds' 99th percentiles, in seconds."""
        return median(r.p99 for r in self.rounds)


@dataclass(frozen=True, slots=True)
class Subject:
    """One operation of one stack, as the subject of a profile."""

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
    """The p99 of test detail in seconds, alone and beside slow searches, by round."""

    alone: tuple[float, ...]
    flooded: tuple[float, ...]
    searches_per_second: float

    @property
    def ratio(self) -> float:
        """Return the p99 under the flood, relative to the p99 alone."""
        return median(f / a for a, f in zip(self.alone, self.flooded, strict=True))


@dataclass(frozen=True, slots=True)
class Memory:
    """The resident memory of one worker in bytes, after each of equal portions of requests."""

    requests: int
    resident: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """Return the memory at the end relative to that half-way: 1 if it no longer grows."""
        return self.resident[-1] / self.resident[(len(self.resident) - 1) // 2]


@dataclass(frozen=True, slots=True)
class Scaling:
    """The CPU time of one operation's request, in seconds, with one worker and with two.

    `ratio` is how many times the requests of one worker two of them answer if each has a core of
    its own: the median of the rounds.
    """

    operation: str
    repeated: bool
    one: float
    two: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one operation over a store of one size.

    `floors` is the time relative to a request to the floor, `p50` in seconds; `series` says what
    grows.
    """

    series: str
    operation: str
    size: int
    floors: float
    p50: float


@dataclass(frozen=True, slots=True)
class Speed:
    """The amount of one kind of data loaded per second in one way; the first way is the base."""

    kind: str
    way: str
    per_second: float


@dataclass(frozen=True, slots=True)
class SmallWrites:
    """Calls with one event each into Elasticsearch, and documents for each execution.

    `slowest_seconds` is the longest call, at whose end its event is visible. The last two are
    documents written or deleted for each execution, the first time and when it is loaded again.
    """

    alone_per_second: float
    at_once_per_second: float
    plain_per_second: float
    slowest_seconds: float
    written_per_execution: float
    written_again_per_execution: float

    @property
    def ratio(self) -> float:
        """Return the rate of calls at once, relative to that of calls one after the other."""
        return self.at_once_per_second / self.alone_per_second


@dataclass(frozen=True, slots=True)
class History:
    """The cost of a report whose tests have `depth` executions each already, in one kind of store.

    `seconds` are of the fastest report; `read` and `written` count documents of Elasticsearch for
    each execution; `recomputed` is how many tests a rebuild computes in a second; `disk` is in
    bytes for each stored execution, 0 if it is not in a file. `cpu` are the least seconds of CPU
    time that a report took this process, without those of a node: unlike `seconds`, they do not
    depend on the disk.
    """

    store: str
    depth: int
    seconds: float
    read: float
    written: float
    recomputed: float
    disk: float
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild of a store whose `tests` have `depth` executions each.

    `per_second` are tests. Meanwhile test details were read, of which the slowest took
    `slowest_read` seconds.
    """

    store: str
    depth: int
    tests: int
    per_second: float
    reads: int
    slowest_read: float


@dataclass(frozen=True, slots=True)
class Loaders:
    """Executions a second of one repository, loaded by one process and by several at once.

    `reports` are those of each of the two loads, which leave the same state.
    """

    store: str
    processes: int
    reports: int
    one_per_second: float
    several_per_second: float

    @property
    def ratio(self) -> float:
        """Return the rate of several loaders, relative to that of one."""
        return self.several_per_second / self.one_per_second


@dataclass(frozen=True, slots=True)
class CachedShare:
    """Requests for what loads into the same repository do not change, during these loads.

    `store_reads` are the values that had to be read from the store for them, `loads` the reports
    that arrived meanwhile.
    """

    store: str
    requests: int
    store_reads: int
    loads: int

    @property
    def share(self) -> float:
        """Return the share of requests that needed no read of the store."""
        return 1 - self.store_reads / self.requests


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one run; a part that was left out is empty or `None`."""

    figures: tuple[Figure, ...] = ()
    flood: Flood | None = None
    memory: Memory | None = None
    workers: tuple[Scaling, ...] = ()
    costs: tuple[Cost, ...] = ()
    speeds: tuple[Speed, ...] = ()
    small_writes: SmallWrites | None = None
    histories: tuple[History, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()
    loaders: tuple[Loaders, ...] = ()
    cached_shares: tuple[CachedShare, ...] = ()
    # The cost of loading the real reports, relative to the least possible.
    reports_ratio: float | None = None
    hottest: tuple[ProfiledSubject, ...] = ()
    # The measurements without a figure, and why.
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
        """Return the figure of that measurement, if any; the one with the most connections."""
        found = [
            figure
            for figure in self.figures
            if (figure.operation, figure.stack) == (operation, stack)
            and (figure.repeated, figure.workers) == (repeated, workers)
            and connections in (None, figure.connections)
        ]
        return max(found, key=lambda figure: figure.connections, default=None)


def compare(one: Figure, other: Figure) -> float:
    """Return the speed of `one` relative to `other`: the median ratio over the rounds.

    Each is first divided by its own floor, because the two were not measured at the same moment.
    """
    return median(
        (a.requests_per_second / a.floor_per_second) / (b.requests_per_second / b.floor_per_second)
        for a, b in zip(one.rounds, other.rounds, strict=True)
    )
