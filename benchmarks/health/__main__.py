"""`make bench-health`: the figures of both rules in jobs that run often, as a table."""

from __future__ import annotations

import argparse
from typing import Final

from benchmarks.health.figures import DELAY_RATES, RATES, Figures, measure_rules
from benchmarks.health.judging import by_changes, by_days
from benchmarks.health.world import Job

JOBS: Final = (
    *(Job(runs, retries=False) for runs in (20, 50, 200)),
    *(Job(runs, retries=True) for runs in (20, 50)),
)
RULES: Final = {"changes": by_changes, "days": by_days}

_HEAD: Final = (
    "runs a day",
    "retries",
    "rule",
    f"recall % at p = {'/'.join(f'{100 * rate:g}' for rate in RATES)} %",
    "false %",
    "ever %",
    "precision %",
    f"days to see, p = {'/'.join(f'{100 * rate:g}' for rate in DELAY_RATES)} %",
    "days to clear",
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--healthy", type=int, default=4_000, help="healthy tests a row")
    arguments.add_argument("--flaky", type=int, default=200, help="flaky tests a row and rate")
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    print("| " + " | ".join(_HEAD) + " |")
    print("|" + "-|" * len(_HEAD))
    for job in JOBS:
        found = measure_rules(job, RULES, healthy=given.healthy, flaky=given.flaky, seed=given.seed)
        for name, figures in found.items():
            print(f"| {' | '.join(_row(job, name, figures))} |", flush=True)


def _row(job: Job, name: str, figures: Figures) -> list[str]:
    delays = [figures.flaky[rate] for rate in DELAY_RATES]
    return [
        str(job.runs_a_day),
        "yes" if job.retries else "no",
        name,
        "/".join(f"{100 * each.recall:.0f}" for each in figures.flaky.values()),
        f"{100 * figures.healthy.false:.2f}",
        f"{100 * figures.healthy.ever:.1f}",
        f"{100 * figures.precision:.0f}",
        "/".join(_delay(each.to_see) for each in delays),
        "/".join(_delay(each.to_clear) for each in delays),
    ]


def _delay(days: float | None) -> str:
    return "–" if days is None else f"{days:.2g}"  # noqa: RUF001 - no figure


if __name__ == "__main__":
    main()
