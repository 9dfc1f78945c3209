"""The page of results: every table with a short explanation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.report import tables
from benchmarks.results import ProfiledSubject, Results
from benchmarks.verdicts import TargetResult

THROUGHPUT_CHART = "results-throughput.svg"
GROWTH_CHART = "results-growth.svg"


@dataclass(frozen=True, slots=True)
class Setting:
    """The machine and versions of a measurement; `stores` describes the stored data."""

    command: str
    machine: str
    versions: str
    stores: str


def write_document(
    setting: Setting,
    results: Results,
    verdicts: Sequence[TargetResult],
    failing: Sequence[ProfiledSubject],
) -> str:
    """Return the whole page in Markdown."""
    parts = [
        _head(setting, results),
        "## Targets\n\n" + tables.targets_table(verdicts),
        *_throughput(results),
    ]
    if results.failures:
        listed = "\n".join(f"- {failure}" for failure in results.failures)
        parts.append(f"## Without a figure, because not every answer was good\n\n{listed}")
    parts += _workers(results)
    if results.costs:
        parts += _growth(results)
    parts += _loads(results)
    if results.hottest:
        parts.append(
            "## Where the time goes\n\nOn the three hottest paths, by py-spy under the same load; "
            "`docs/performance.md` says why it stays there."
        )
        parts += _looks(results.hottest)
    if failing:
        parts.append("## What dominates where a target does not hold")
        parts += _looks(failing)
    return "\n\n".join(parts) + "\n"


def _loads(results: Results) -> list[str]:
    """Return the sections on loads and rebuilds."""
    parts: list[str] = []
    if results.speeds:
        parts.append(
            "## Loading\n\nThe best of three loads each, into a new store.\n\n"
            + tables.speed_table(results.speeds)
        )
    if results.small_writes:
        parts.append("## Small writes\n\n" + tables.small_writes_table(results.small_writes))
    if results.histories:
        parts.append(
            "## Loading into a history\n\nThe fastest of five reports, by how many executions each "
            "of its tests has; documents of Elasticsearch read and written for each execution.\n\n"
            + tables.history_table(results.histories)
        )
    if results.rebuilds:
        parts.append(
            "## Rebuilds\n\nThe fastest of three, while another connection reads test details.\n\n"
            + tables.rebuilds_table(results.rebuilds)
        )
    if results.loaders:
        parts.append(
            "## Several loaders\n\nOf one repository, each a process; afterwards both stores hold "
            "the same.\n\n" + tables.loaders_table(results.loaders)
        )
    if results.cached_shares:
        parts.append(
            "## Cached answers during loads\n\nRequests for details of tests and for quarantines, "
            "while reports of other tests of the repository arrive over HTTP.\n\n"
            + tables.shares_table(results.cached_shares)
        )
    return parts


def _head(setting: Setting, results: Results) -> str:
    dates = ", ".join(f"{part} {date}" for part, date in results.dates.items())
    return (
        f"# Results of `{setting.command}`\n\n"
        f"- **Machine**: {setting.machine}\n"
        f"- **Versions**: {setting.versions}\n"
        f"- **Stores**: {setting.stores}\n"
        f"- **Measured**: {dates}\n\n"
        "A figure in parentheses is the ratio to the floor: to what aiohttp and uvloop do at best, "
        "a constant of the same size, measured right before and after with the same load. It is "
        "the median of the rounds' ratios. Load comes from wrk, in another process. *Cached* is "
        "the same request over and over; *not cached* asks for something else each time."
    )


def _throughput(results: Results) -> Iterator[str]:
    for workers in sorted({figure.workers for figure in results.figures}):
        for repeated, words in ((True, "cached"), (False, "not cached")):
            found = tables.throughput_table(
                results.figures, repeated=repeated, workers=workers, connections=_most(results)
            )
            if found:
                who = "one worker" if workers == 1 else f"{workers} workers"
                yield f"## Requests a second, {who}, {words}\n\n{found}"
                if workers == 1 and repeated:
                    yield f"![Ratios to the floor]({THROUGHPUT_CHART})"
    alone = tables.alone_table(results.figures)
    if alone:
        yield f"## One client alone\n\nNot cached.\n\n{alone}"
    against_raw = tables.raw_table(results)
    if against_raw:
        yield against_raw


def _workers(results: Results) -> Iterator[str]:
    """Yield what was measured of the worker processes beside their throughput."""
    if results.flood:
        yield "## Beside slow searches\n\n" + tables.flood_table(results.flood)
    if results.workers:
        yield (
            "## Two workers\n\nThe CPU time of a request, which leaves the load out: where each "
            "worker has a core of its own, it answers as many requests a second as fit into a "
            "second of CPU time.\n\n" + tables.workers_table(results.workers)
        )
    if results.memory:
        yield "## Memory of one worker\n\n" + tables.memory_table(results.memory)


def _most(results: Results) -> int:
    return max((figure.connections for figure in results.figures), default=0)


def _growth(results: Results) -> Iterator[str]:
    yield "## Growth\n\nThe median time of an answer to one client, by the size of the store."
    for series in dict.fromkeys(cost.series for cost in results.costs):
        found = [cost for cost in results.costs if cost.series == series]
        yield f"**{series[0].upper()}{series[1:]}**\n\n{tables.cost_table(found)}"
    yield f"![Costs by size]({GROWTH_CHART})"


def _looks(looks: Sequence[ProfiledSubject]) -> Iterator[str]:
    for look in looks:
        subject, profile = look.subject, look.profile
        cached = "cached" if subject.repeated else "not cached"
        yield f"### {subject.operation}, {subject.stack}, {cached}"
        yield tables.table(
            ["time in the function itself", "share"],
            [[f"`{s.name}`", f"{s.share:.0%}"] for s in profile.itself],
        )
        yield tables.table(
            ["time in it and in what it calls", "share"],
            [[f"`{s.name}`", f"{s.share:.0%}"] for s in profile.within],
        )
