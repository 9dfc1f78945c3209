"""Made-up tests, executions and events, the same on every machine. Pure but for one file.

The names match the globs of `benchmarks.requests.operations`, each as often as that module states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.data.sizes import StoreSize
from indexing.events.parsing import parse_event
from indexing.models.events import EventKey, StoredEvent
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.quarantines import QuarantineRequest
from indexing.names import RepositoryName
from indexing.timestamps import format_timestamp

OWNER: Final = "acme"
MEASURED: Final = RepositoryName(OWNER, "monorepo")

# All events are received within this range.
EVENTS_FROM: Final = datetime(2026, 9, 1, tzinfo=UTC)
EVENTS_TO: Final = datetime(2026, 11, 1, tzinfo=UTC)

# This number makes the list of quarantines 12 KB long.
QUARANTINES: Final = 40

TESTS_A_MODULE: Final = 100
# One test in this many has `ODD_WORD` in its name: two characters that no other name combines.
ODD_EVERY: Final = 2_000
ODD_WORD: Final = "qz"
TAGS: Final = 4_096
ENDINGS: Final = 1_000
VERBS: Final = ("parse", "render", "merge", "fetch", "build", "cache", "verify", "resolve")

_AREAS: Final = ("unit", "api", "storage", "scheduler")
_NOUNS: Final = ("header", "window", "queue", "branch", "report", "cursor", "token", "matrix")
_JOBS: Final = ("linux", "macos", "windows", "linux-arm64")
_BATCH: Final = 1_000
_FIRST_RUN: Final = datetime(2026, 10, 1, tzinfo=UTC)
_EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "events.ndjson"


@dataclass(frozen=True, slots=True)
class Batch:
    """Executions of one run of one job, the input of a writer."""

    repository: RepositoryName
    run: Run
    executions: tuple[Execution, ...]


def tag_of(number: int) -> str:
    """Return a word that one name in `TAGS` contains."""
    digest = hashlib.blake2b(str(number).encode(), digest_size=2).digest()
    return f"h{int.from_bytes(digest, 'big') % TAGS:03x}"


def module_of(number: int) -> str:
    """Return the prefix of the names of `TESTS_A_MODULE` tests."""
    module = number // TESTS_A_MODULE
    return f"tests/{_AREAS[module % len(_AREAS)]}/module_{module:04}/"


def name_of(number: int) -> str:
    """Return the name of a repository's test of that number."""
    noun = _NOUNS[number // len(VERBS) % len(_NOUNS)]
    odd = f"_{ODD_WORD}" if number % ODD_EVERY == 0 else ""
    return (
        f"{module_of(number)}test_{noun}.py::Test{noun.title()}::test_{VERBS[number % len(VERBS)]}"
        f"_{noun}{odd}_{tag_of(number)}_{number % ENDINGS:03}"
    )


def repository_elsewhere(number: int) -> RepositoryName:
    """Return one of the other repositories in the store, which are not measured."""
    return RepositoryName(OWNER, f"service-{number:04}")


def repositories_of(size: StoreSize) -> Iterator[tuple[RepositoryName, int]]:
    """Yield the repositories with their number of tests: the measured one, then others."""
    yield MEASURED, size.tests
    left = size.identities - size.tests
    for number in range(-(-left // size.tests_elsewhere)):
        tests = min(size.tests_elsewhere, left - number * size.tests_elsewhere)
        yield repository_elsewhere(number), tests


def batches_of(repository: RepositoryName, tests: int) -> Iterator[Batch]:
    """Yield all executions of a repository.

    Tests of the measured repository have run once, twice or three times, those of others once.
    """
    for start in range(0, tests, _BATCH):
        numbers = range(start, min(start + _BATCH, tests))
        for attempt in range(3 if repository == MEASURED else 1):
            yield _batch_of(repository, [n for n in numbers if n % 3**attempt == 0], attempt)


def _batch_of(repository: RepositoryName, numbers: list[int], nth: int) -> Batch:
    job = _JOBS[numbers[0] // _BATCH % len(_JOBS)]
    commit = hashlib.sha1(f"{nth}".encode(), usedforsecurity=False).hexdigest()
    run = Run(f"{nth}-{numbers[0]}", 1, "ci", job, "main", commit)
    finished_at = _FIRST_RUN + timedelta(days=nth)
    return Batch(
        repository, run, tuple(_execution_of(repository, n, nth, finished_at) for n in numbers)
    )


def _execution_of(
    repository: RepositoryName, number: int, nth: int, finished_at: datetime
) -> Execution:
    name = name_of(number)
    digest = hashlib.blake2b(f"{repository.key}\0{number}\0{nth}".encode(), digest_size=16)
    failed = number % 20 == nth
    return Execution(
        id=digest.digest(),
        test_name=name,
        conclusion=Conclusion.FAILED if failed else Conclusion.PASSED,
        finished_at=finished_at,
        duration=0.125,
        framework="pytest",
        framework_version="8.4.2",
        language="python",
        filepath=name.partition("::")[0],
        function_name=name.rpartition("::")[2],
        failure_type="AssertionError" if failed else None,
        failure_message="assert 1 == 2" if failed else None,
    )


def quarantine_of(number: int) -> QuarantineRequest:
    """Return one of the quarantines of the measured repository, each of another test."""
    return QuarantineRequest(
        name_of(number * 7), reason="fails now and then since the last change of its fixtures"
    )


class EventMaker:
    """Makes events from the examples, with the same types and shapes but other ids and times."""

    def __init__(
        self,
        repository: RepositoryName = MEASURED,
        begin: datetime = EVENTS_FROM,
        end: datetime = EVENTS_TO,
    ) -> None:
        self._repository = repository
        self._begin = begin
        self._range = end - begin
        self._templates = [
            parse_event(line).finish(repository) for line in _EXAMPLES.read_bytes().splitlines()
        ]
        # The members that differ between two events of one template come first in the body.
        self._rests = [b'"trigger":' + t.body.split(b'"trigger":', 1)[1] for t in self._templates]

    def make(self, number: int, of: int) -> StoredEvent:
        """Make event `number` of `of`; all are spread evenly over the whole range."""
        at = number % len(self._templates)
        template = self._templates[at]
        received_at = self._begin + self._range * number / of
        beginning = f'{{"id":{number},"received_at":"{format_timestamp(received_at)}",'
        return StoredEvent(
            repository=self._repository,
            key=EventKey(received_at, number),
            type=template.type,
            pull_request=template.pull_request,
            base_ref=template.base_ref,
            trigger=template.trigger,
            outcome=template.outcome,
            body=beginning.encode() + self._rests[at],
        )


def with_pull(event: StoredEvent, pull: int) -> StoredEvent:
    """Return the event as one of that pull request, unless it is of none."""
    if event.pull_request is None:
        return event
    stated = b'"pull_request":%d,'
    body = event.body.replace(stated % event.pull_request, stated % pull, 1)
    return replace(event, pull_request=pull, body=body)
