"""The store whose pages are measured: a large repository, a test with a long history, others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, product
from typing import Final

from benchmarks.data.generated import EventMaker, with_pull
from benchmarks.data.loading import Progress
from indexing.failures.traces import pack_trace
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.quarantines import QuarantineRequest
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import WIDGETS, make_executions, make_run

JOBS: Final = ("linux", "mac", "windows", "bsd")
LONG: Final = "tests/area_0/test_long.py::test_with_a_long_history"
# More than a page of the list has.
QUARANTINES: Final = 150
# Every test has run twice. Those that are broken or flaky have run ten times more, together with
# others that pass: a job in which nearly all tests fail counts as a failure of the machine.
_RUNS_OF_ALL, _RUNS_OF_FEW = 2, 10
_LONG_DAYS, _LONG_RUNS_A_DAY = 90, 8
_EVENT_DAYS: Final = 30
_EVENTS_A_PULL: Final = 100
_OTHERS: Final = 100
_BATCH: Final = 5_000
_RUNS_A_CALL: Final = 500
_EVENTS_A_CALL: Final = 2_000


def name_of(number: int) -> str:
    return f"tests/area_{number % 50}/test_{number % 997}.py::test_the_widget_number_{number}"


def is_broken(number: int) -> bool:
    return number % 100 == 0


def is_flaky(number: int) -> bool:
    return number % 50 == 1


async def load(store: Store, tests: int, events: int, now: datetime) -> None:
    """Fill an empty store; one test in fifty is flaky, one in a hundred broken."""
    await store.ensure_repository(WIDGETS)
    say = Progress("tests", tests)
    for begin in range(0, tests, _BATCH):
        numbers = range(begin, min(tests, begin + _BATCH))
        await store.write_results(WIDGETS, _results_of(numbers, now))
        say(len(numbers))
    runs = _runs_of_the_long(now)
    while some := dict(islice(runs, _RUNS_A_CALL)):
        await store.write_results(WIDGETS, some)
    await store.refresh_tests(now, Progress("health", tests).at)
    for number in range(QUARANTINES):
        asked = QuarantineRequest(name_of(50 * number + 1), reason="fails now and then")
        await store.add_quarantine(WIDGETS, asked, now)
    await _load_others(store, now)
    await _load_events(store, events, now)


def _results_of(numbers: Sequence[int], now: datetime) -> dict[Run, list[Execution]]:
    """Return the results of some tests, each in one of the jobs."""
    found = {}
    for nth in range(_RUNS_OF_ALL + _RUNS_OF_FEW):
        at = now - timedelta(hours=12 * (_RUNS_OF_ALL + _RUNS_OF_FEW - nth))
        chosen = [number for number in numbers if nth < _RUNS_OF_ALL or number % 25 < 2]
        for place, job in enumerate(JOBS):
            run = make_run(f"{numbers[0]}-{nth}", job=job, commit=f"{nth:040x}")
            found[run] = _run_tests([n for n in chosen if n % len(JOBS) == place], nth, run, at)
    return found


def _run_tests(numbers: Sequence[int], nth: int, run: Run, at: datetime) -> list[Execution]:
    found = []
    for number in numbers:
        name, conclusion = name_of(number), _conclude(number, nth)
        (execution,) = make_executions(
            run,
            [(name, conclusion)],
            at,
            duration=0.1 + number % 97 / 100,
            filepath=name.partition("::")[0],
        )
        if conclusion is Conclusion.FAILED:
            execution = _with_failure(execution, f"the widget of area {number % 50} is missing")
        found.append(execution)
    return found


def _conclude(number: int, nth: int) -> Conclusion:
    fails = is_broken(number) or (is_flaky(number) and nth % 5 == 1)
    return Conclusion.FAILED if fails else Conclusion.PASSED


def _with_failure(execution: Execution, message: str) -> Execution:
    trace = pack_trace(f"Traceback: {message}\n" + "  in a function of a file\n" * 40)
    return replace(execution, failure_type="Error", failure_message=message, failure_trace=trace)


def _runs_of_the_long(now: datetime) -> Iterator[tuple[Run, list[Execution]]]:
    """Yield the runs of one test in each of the jobs, over all days that are kept."""
    for day, nth, job in product(range(_LONG_DAYS), range(_LONG_RUNS_A_DAY), JOBS):
        number = day * _LONG_RUNS_A_DAY + nth
        at = now - timedelta(days=_LONG_DAYS - day, hours=nth)
        run = make_run(f"long-{number}", job=job, commit=f"{number:040x}")
        conclusion = Conclusion.FAILED if number % 13 == 0 else Conclusion.PASSED
        (execution,) = make_executions(run, [(LONG, conclusion)], at, duration=0.5 + number % 7)
        if conclusion is Conclusion.FAILED:
            execution = _with_failure(execution, f"case {'abcdefghijkl'[day % 12]} failed")
        yield run, [execution]


async def _load_others(store: Store, now: datetime) -> None:
    for number in range(_OTHERS):
        name = RepositoryName(WIDGETS.owner, f"service-{number:03}")
        await store.ensure_repository(name)
        run = make_run("1")
        results = [(name_of(n), _conclude(n + number, 1)) for n in range(20)]
        executions = make_executions(run, results, now, repository=name, duration=0.1)
        await store.write_results(name, {run: executions})
    await store.refresh_tests(now)


async def _load_events(store: Store, events: int, now: datetime) -> None:
    """Load events of the last days; a pull request has a hundred at about the same time."""
    maker = EventMaker(WIDGETS, now - timedelta(days=_EVENT_DAYS), now)
    say = Progress("events", events)
    for begin in range(0, events, _EVENTS_A_CALL):
        numbers = range(begin, min(events, begin + _EVENTS_A_CALL))
        await store.write_events(
            [with_pull(maker.make(n, events), 1 + n // _EVENTS_A_PULL) for n in numbers]
        )
        say(len(numbers))
