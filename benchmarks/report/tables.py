"""Markdown tables of the results. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.requests.operations import BY_NAME, OPERATIONS
from benchmarks.results import (
    CachedShare,
    Cost,
    Figure,
    Flood,
    History,
    Loaders,
    Memory,
    Rebuild,
    Results,
    Scaling,
    SmallWrites,
    Speed,
)
from benchmarks.targets import against_raw
from benchmarks.verdicts import TargetResult, cut

_MIB = 2**20


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table; the first column is text, the others are figures."""
    marks = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in (header, marks, *rows))


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


def targets_table(verdicts: Sequence[TargetResult]) -> str:
    """List every target, with its figure and whether it holds."""
    return table(
        ["target", "required", "measured", "verdict"],
        [[v.target.text, v.required, v.shown, v.word] for v in verdicts],
    )


def throughput_table(
    figures: Sequence[Figure], *, repeated: bool, workers: int, connections: int
) -> str | None:
    """Show requests a second, each with its ratio to the floor; `None` without figures."""
    chosen = [
        figure
        for figure in figures
        if (figure.repeated, figure.workers, figure.connections) == (repeated, workers, connections)
    ]
    stacks = list(dict.fromkeys(figure.stack for figure in chosen))
    rows = []
    for operation in OPERATIONS:
        found = {f.stack: f for f in chosen if f.operation == operation.name}
        if found:
            rows.append([operation.title, *(_speed(found.get(stack)) for stack in stacks)])
    return table(["operation", *stacks], rows) if rows else None


def alone_table(figures: Sequence[Figure]) -> str | None:
    """Show latencies of a single client, not cached; `None` without figures."""
    chosen = [figure for figure in figures if figure.connections == 1]
    if not chosen:
        return None
    return table(
        ["operation", "stack", "median", "99th percentile"],
        [
            [BY_NAME[f.operation].title, f.stack, milliseconds(f.p50), milliseconds(f.p99)]
            for f in chosen
        ],
    )


def raw_table(results: Results) -> str | None:
    """Show times of a single client relative to the raw search; `None` without figures."""
    ratios = {each: against_raw(results, each, connections=1) for each in OPERATIONS}
    rows = [
        [each.title, cut(ratio, up=True)] for each, ratio in ratios.items() if ratio is not None
    ]
    heads = ["operation", "mergewatch, Elasticsearch, times the raw search"]
    return table(heads, rows) if rows else None


def flood_table(flood: Flood) -> str:
    """Show the p99 with and without the flood."""
    return table(
        ["p99 of test detail", *(f"round {n}" for n in range(1, len(flood.alone) + 1))],
        [
            ["alone", *(milliseconds(p99) for p99 in flood.alone)],
            [
                f"with {flood.searches_per_second:,.0f} searches of every name a second beside it",
                *(milliseconds(p99) for p99 in flood.flooded),
            ],
        ],
    )


def workers_table(found: Sequence[Scaling]) -> str:
    """Show the CPU time of a request with one worker and with two."""
    rows = [
        [
            BY_NAME[each.operation].title + (", cached" if each.repeated else ", not cached"),
            f"{each.one * 1e6:,.0f} µs",
            f"{each.two * 1e6:,.0f} µs",
            f"{each.ratio:.2f}",
        ]
        for each in found
    ]
    return table(
        ["operation", "one worker", "two workers", "two with a core each, times one"], rows
    )


def memory_table(memory: Memory) -> str:
    """Show the memory of one worker, from a tenth of the requests to all of them."""
    every = max(1, len(memory.resident) // 10)
    shares = range(every - 1, len(memory.resident), every)
    return table(
        ["requests", *(f"{memory.requests * (s + 1) // len(memory.resident):,}" for s in shares)],
        [["MiB", *(f"{memory.resident[share] / _MIB:.0f}" for share in shares)]],
    )


def cost_table(costs: Sequence[Cost]) -> str:
    """Show the median latency of one client, with the cost in requests of the floor, by size."""
    sizes = sorted({cost.size for cost in costs})
    rows = []
    for operation in dict.fromkeys(cost.operation for cost in costs):
        found = {cost.size: cost for cost in costs if cost.operation == operation}
        rows.append([operation, *(_cost(found.get(size)) for size in sizes)])
    return table(["operation", *(f"{size:,}" for size in sizes)], rows)


def small_writes_table(found: SmallWrites) -> str:
    """Compare calls with one event each with one bulk request; show the documents written."""
    return table(
        ["into Elasticsearch", "figure"],
        [
            ["calls of one event a second, one after the other", f"{found.alone_per_second:,.0f}"],
            ["calls of one event a second, at once", f"{found.at_once_per_second:,.0f}"],
            ["the same documents a second, plain bulk", f"{found.plain_per_second:,.0f}"],
            ["slowest call, until its event is visible", f"{found.slowest_seconds:.2f} s"],
            ["documents written for each execution", f"{found.written_per_execution:.2f}"],
            ["the same, loaded again", f"{found.written_again_per_execution:.2f}"],
        ],
    )


def speed_table(speeds: Sequence[Speed]) -> str:
    """Show the loading speed, each with its ratio to the first way of its kind."""
    base: dict[str, float] = {}
    rows = []
    for speed in speeds:
        first = base.setdefault(speed.kind, speed.per_second)
        share = speed.per_second / first
        rows.append([f"{speed.kind}, {speed.way}", f"{speed.per_second:,.0f}", f"{share:.2f}"])
    return table(["what, and where to", "a second", "of reading alone"], rows)


def history_table(histories: Sequence[History]) -> str:
    """Show the cost of a report at each depth of history."""
    rows = [
        [
            f"{each.store}, {each.depth:,}",
            f"{each.seconds:.3f}",
            f"{each.read:.2f}",
            f"{each.written:.2f}",
            f"{each.recomputed:,.0f}" if each.recomputed else "-",
            f"{each.disk:,.0f}" if each.disk else "-",
        ]
        for each in histories
    ]
    heads = ["where to, executions a test", "seconds", "read", "written"]
    return table([*heads, "tests rebuilt a second", "bytes an execution"], rows)


def rebuilds_table(found: Sequence[Rebuild]) -> str:
    """Show the rate of rebuilds, and the slowest read meanwhile."""
    rows = [
        [
            each.store.removeprefix("into "),
            f"{each.tests:,}",
            f"{each.depth:,}",
            f"{each.per_second:,.0f}",
            f"{each.reads:,}",
            f"{each.slowest_read * 1000:.0f} ms",
        ]
        for each in found
    ]
    heads = ["store", "tests", "executions a test", "tests a second", "reads", "slowest read"]
    return table(heads, rows)


def loaders_table(found: Sequence[Loaders]) -> str:
    """Compare one loader of a repository with several at once."""
    rows = [
        [
            each.store,
            f"{each.one_per_second:,.0f}",
            f"{each.several_per_second:,.0f}",
            f"{each.ratio:.2f}",
        ]
        for each in found
    ]
    several = f"{found[0].processes} loaders"
    return table(["executions a second", "one loader", several, "times one"], rows)


def shares_table(found: Sequence[CachedShare]) -> str:
    """Show how many requests needed no read of the store while reports arrived."""
    rows = [
        [each.store, f"{each.loads:,}", f"{each.requests:,}", f"{each.share:.1%}"] for each in found
    ]
    return table(["where the reports go to", "reports", "requests", "from the cache"], rows)


def ratios_of(results: Results) -> dict[str, dict[str, float]]:
    """Return the chart's ratios with one worker, by operation and stack."""
    groups: dict[str, dict[str, float]] = {}
    many = max((figure.connections for figure in results.figures), default=0)
    for operation in OPERATIONS:
        for repeated in (True, False):
            found = {
                figure.stack: figure.ratio
                for figure in results.figures
                if (figure.operation, figure.repeated) == (operation.name, repeated)
                and (figure.workers, figure.connections) == (1, many)
            }
            if found:
                groups[operation.title + (", cached" if repeated else "")] = found
    return groups


def milliseconds(seconds: float) -> str:
    """Format a time with three significant figures."""
    return f"{seconds * 1000:.3g} ms"


def _speed(figure: Figure | None) -> str:
    return "" if figure is None else f"{figure.requests_per_second:,.0f} ({figure.ratio:.3f})"


def _cost(cost: Cost | None) -> str:
    return "" if cost is None else f"{milliseconds(cost.p50)} ({cost.floors:.1f})"


def lines_of(results: Results) -> dict[str, list[tuple[float, float]]]:
    """Return the chart's milliseconds by size, for each operation and series."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for cost in results.costs:
        name = f"{cost.operation}, {cost.series}"
        lines.setdefault(name, []).append((cost.size, cost.p50 * 1000))
    return lines
