"""A million generated test identities over 200 repositories, the same on every machine. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import orjson

from benchmarks.data.generated import Batch
from indexing.identifiers import derive_identity_id, derive_junit_execution_id
from indexing.models.events import EventKey, Outcome, StoredEvent
from indexing.models.executions import Conclusion, Execution, Run
from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds, to_microseconds

OWNER: Final = "acme"
# The repository in which the first search is measured.
SMALL: Final = RepositoryName(OWNER, "small")
LARGEST: Final = RepositoryName(OWNER, "largest")

_REPOSITORIES: Final = 200
_SMALL_TESTS: Final = 3_600
# The batch size of `mergewatch ingest junit`.
_TESTS_A_RUN: Final = 2_000
_TESTS_A_MODULE: Final = 100
_FINISHED_AT: Final = datetime(2026, 10, 1, 6, tzinfo=UTC)
_RECEIVED_FROM: Final = to_microseconds(datetime(2026, 10, 1, tzinfo=UTC))
_VERBS: Final = ("parse", "render", "merge", "fetch", "build", "cache", "verify", "resolve")
_NOUNS: Final = ("header", "window", "queue", "branch", "report", "cursor", "token", "matrix")


def sizes_of(identities: int) -> dict[RepositoryName, int]:
    """Return each repository's number of tests: the largest has a tenth of all, most have few."""
    sizes = {LARGEST: identities // 10, SMALL: min(_SMALL_TESTS, identities // 10)}
    others = _REPOSITORIES - len(sizes)
    left = identities - sum(sizes.values())
    for number in range(others):
        of_this = left // others + (number < left % others)
        sizes[RepositoryName(OWNER, f"service-{number:03}")] = of_this
    return sizes


def rare_word(repository: RepositoryName, number: int) -> str:
    """Return a word that only the name of that test contains."""
    whose = f"{repository.key}\0{number}".encode()
    return f"w{hashlib.blake2b(whose, digest_size=5).hexdigest()}"


def name_of(repository: RepositoryName, number: int) -> str:
    """Return the name of a repository's test of that number."""
    noun, verb = _NOUNS[number // 8 % 8], _VERBS[number % 8]
    return (
        f"tests/unit/module_{number // _TESTS_A_MODULE:04}/test_{noun}.py::Test{noun.title()}"
        f"::test_{verb}_{noun}_{rare_word(repository, number)}_once"
    )


def batches_of(repository: RepositoryName, tests: int) -> Iterator[Batch]:
    """Yield one execution of every test of a repository."""
    for start in range(0, tests, _TESTS_A_RUN):
        run = Run(str(start), 1, "ci", "unit", "main", "c0ffee")
        numbers = range(start, min(start + _TESTS_A_RUN, tests))
        yield Batch(repository, run, tuple(_execution_of(repository, run, n) for n in numbers))


def _execution_of(repository: RepositoryName, run: Run, number: int) -> Execution:
    name = name_of(repository, number)
    identity = derive_identity_id(repository, name, run.pipeline_name, run.job_name)
    return Execution(
        id=derive_junit_execution_id(identity, run.run_id, run.attempt, bytes(32), 0),
        test_name=name,
        conclusion=Conclusion.FAILED if number % 50 == 0 else Conclusion.PASSED,
        finished_at=_FINISHED_AT,
        duration=0.125,
        framework="pytest",
        framework_version="8.4.2",
        language="python",
        filepath=name.partition("::")[0],
        function_name=name.rpartition("::")[2],
    )


def events_of(repository: RepositoryName, count: int) -> Iterator[StoredEvent]:
    """Yield events, a second apart, of the usual size."""
    for number in range(count):
        received_at = from_microseconds(_RECEIVED_FROM + number * 1_000_000)
        body = {
            "id": number,
            "received_at": received_at.isoformat().replace("+00:00", "Z"),
            "trigger": "merge queue",
            "repository": str(repository),
            "pull_request": number % 500 + 1,
            "base_ref": "main",
            "type": "action.merge",
            "metadata": {"branch": "main"},
        }
        yield StoredEvent(
            repository=repository,
            key=EventKey(received_at, number),
            type="action.merge",
            pull_request=number % 500 + 1,
            base_ref="main",
            trigger="merge queue",
            outcome=Outcome.SUCCESS,
            body=orjson.dumps(body),
        )
