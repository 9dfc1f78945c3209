"""Made-up results, to test the verdicts and the report."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.results import Figure, Round

OURS = "mergewatch, SQLite"
THEIRS = "FastAPI, SQLite"


def figure_of(
    rates: Sequence[tuple[float, float]],
    *,
    operation: str = "detail",
    stack: str = OURS,
    repeated: bool = True,
    workers: int = 1,
    connections: int = 64,
    p50: float = 0.001,
) -> Figure:
    """A figure made of rounds, each with its requests per second and those of the floor."""
    rounds = tuple(Round(rate, floor, p50, 2 * p50) for rate, floor in rates)
    return Figure(operation, stack, repeated, workers, connections, rounds)
