"""`make bench`: measures, prints each target and whether it holds, and writes the results."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks import load_reports
from benchmarks.data.generated import MEASURED
from benchmarks.data.loading import FOLDER, load, read_key
from benchmarks.data.sizes import SIZES, Size, StoreSize
from benchmarks.keeping import read_results, write_results
from benchmarks.load.wrk import ensure_wrk
from benchmarks.parts.bench import Conditions
from benchmarks.parts.cached_share import measure_cached_shares
from benchmarks.parts.flood import measure_flood
from benchmarks.parts.growth import measure_growth
from benchmarks.parts.history import measure_history
from benchmarks.parts.ingest import measure_ingest
from benchmarks.parts.loaders import measure_loaders
from benchmarks.parts.memory import measure_memory
from benchmarks.parts.profiles import measure_profiles
from benchmarks.parts.rebuild import measure_rebuilds
from benchmarks.parts.small_writes import measure_small_writes
from benchmarks.parts.throughput import measure_throughput
from benchmarks.parts.workers import measure_workers
from benchmarks.report.publishing import publish
from benchmarks.requests.operations import QueriedRepository
from benchmarks.results import Results
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.new_stores import new_places
from benchmarks.running.services import elasticsearch_running, redis_running
from benchmarks.stacks import Backends
from benchmarks.targets import HOTTEST, judge
from benchmarks.verdicts import TargetResult
from indexing.store import ElasticsearchPlace, open_store

REDIS: Final = "redis"
ELASTICSEARCH: Final = "elasticsearch"
SERVERS: Final = (REDIS, ELASTICSEARCH)
# The folder of the node.
NODE: Final = FOLDER / ELASTICSEARCH / "node"


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its size, its servers, and the folder of its files."""

    size: Size
    redis_url: str | None
    elasticsearch_url: str | None

    @property
    def logs(self) -> Path:
        """The folder of the servers' logs."""
        return FOLDER / self.size.name / "logs"

    def load(self, store: StoreSize) -> Backends:
        """Fill that store on SQLite and, if a node runs, on Elasticsearch."""
        folder = FOLDER / "sqlite" / store.name
        load(folder, store, lambda: open_store(folder))
        prefix = f"bench-{store.name}"
        if self.elasticsearch_url is not None:
            place = ElasticsearchPlace((self.elasticsearch_url,), prefix)
            load(FOLDER / ELASTICSEARCH / store.name, store, lambda: open_store(place))
        return Backends(folder, self.redis_url, self.elasticsearch_url, prefix)

    def conditions(self) -> Conditions:
        """The main store."""
        store = self.size.store
        backends = self.load(store)
        queried = QueriedRepository(MEASURED, store.tests)
        folders = (backends.folder, NODE)
        return Conditions(self.size, queried, read_key(), backends, self.logs, folders)


def measure_part(run: Run, part: str) -> dict[str, Any]:
    """Measure a part and return its members of `Results`."""
    return PARTS[part](run)


def _throughput(run: Run) -> dict[str, Any]:
    figures, failures = measure_throughput(run.conditions())
    return {"figures": tuple(figures), "failures": tuple(failures)}


def _ingest(run: Run) -> dict[str, Any]:
    places = new_places(run.elasticsearch_url)
    return {"speeds": tuple(measure_ingest(run.size, places, run.elasticsearch_url))}


def _small_writes(run: Run) -> dict[str, Any]:
    url = run.elasticsearch_url
    return {"small_writes": None if url is None else measure_small_writes(url)}


PARTS: Final[dict[str, Callable[[Run], dict[str, Any]]]] = {
    "throughput": _throughput,
    "flood": lambda run: {"flood": measure_flood(run.conditions())},
    "workers": lambda run: {"workers": tuple(measure_workers(run.conditions()))},
    "memory": lambda run: {"memory": measure_memory(run.conditions())},
    "growth": lambda run: {"costs": tuple(measure_growth(run.size, run.load, run.logs, [NODE]))},
    "ingest": _ingest,
    "small_writes": _small_writes,
    "history": lambda run: {
        "histories": tuple(measure_history(run.size, new_places(run.elasticsearch_url)))
    },
    "rebuild": lambda run: {
        "rebuilds": tuple(measure_rebuilds(run.size, new_places(run.elasticsearch_url)))
    },
    "loaders": lambda run: {
        "loaders": tuple(measure_loaders(run.size, new_places(run.elasticsearch_url)))
    },
    "cached_share": lambda run: {
        "cached_shares": tuple(measure_cached_shares(run.size, new_places(run.elasticsearch_url)))
    },
    "hottest": lambda run: {"hottest": measure_profiles(run.conditions(), HOTTEST)},
    "reports": lambda _run: {"reports_ratio": asyncio.run(load_reports.measure())},
}


@contextmanager
def prepared(size: Size, without: list[str]) -> Iterator[Run]:
    """Prepare a run with all servers except those to leave out."""
    cores = divide(available_cores(), 1)
    with ExitStack() as exits:
        redis_url = elasticsearch_url = None
        if REDIS not in without:
            redis_url = exits.enter_context(redis_running(FOLDER / "redis", cores))
        if ELASTICSEARCH not in without:
            elasticsearch_url = exits.enter_context(elasticsearch_running(NODE, cores))
        yield Run(size, redis_url, elasticsearch_url)


def main() -> int:
    options = _read_options()
    # On SIGTERM, raise an exception, so that every `with` stops what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    size = SIZES[options.size]
    parts = options.parts or list(PARTS)
    kept = FOLDER / size.name / "results.json"
    # A full run starts from empty results; parts selected by name replace earlier results.
    results = read_results(kept) if options.parts else Results()
    ensure_wrk()
    with prepared(size, options.without) as run:
        for part in parts:
            print(f"measuring {part}", file=sys.stderr)
            today = f"{datetime.now(UTC):%Y-%m-%d}"
            dates = {**results.dates, part: today}
            results = replace(results, **measure_part(run, part), dates=dates)
            write_results(kept, results)
        verdicts = judge(results)
        failing = [v.target.subject for v in verdicts if v.holds is False and v.target.subject]
        profiles = (
            measure_profiles(run.conditions(), list(dict.fromkeys(failing))[: options.profiles])
            if failing and options.profiles
            else ()
        )
    publish(size, results, verdicts, profiles)
    return report(verdicts, results.failures, thorough=size.thorough)


def report(verdicts: Sequence[TargetResult], failures: Sequence[str], *, thorough: bool) -> int:
    """Print each target and whether it holds; return the exit status.

    A run that is not thorough shows only whether everything works; its figures prove nothing.
    """
    for failure in failures:
        print(f"FAILED        {failure}")
    for verdict in verdicts:
        if thorough or verdict.holds is not None:
            target = verdict.target
            print(f"{verdict.word:13} {verdict.shown:>11} {verdict.required:>10}  {target.text}")
    all_hold = all(verdict.holds for verdict in verdicts)
    return 1 if failures or (thorough and not all_hold) else 0


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    parser.add_argument(
        "--part", dest="parts", action="append", choices=list(PARTS), help="only this; repeatable"
    )
    parser.add_argument(
        "--without", action="append", choices=SERVERS, default=[], help="leave a server out"
    )
    parser.add_argument(
        "--profiles", type=int, default=100, help="how many failing targets to look into"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
