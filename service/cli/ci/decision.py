"""Decides whether the results of a CI job block it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from indexing.models.executions import Conclusion, Execution

# What `timeout` and shells return for a command that took too long, could not be started, or was
# ended by a signal, and what Windows returns for a crash.
_OF_SHELLS: Final = range(124, 193)
# The greatest exit status of POSIX. Windows has more, such as 3221225477 for an access violation.
MAX_EXIT_STATUS: Final = 255

# Failures beyond this number count in the decision, but their messages are not kept.
_MAX_MESSAGES: Final = 1_000


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A test that failed at least once, with the details of its first failure."""

    test_name: str
    failure_type: str | None = None
    failure_message: str | None = None
    filepath: str | None = None


@dataclass(slots=True)
class TestResults:
    """The results in the reports of a job.

    `count` counts all results, `failed` those that failed, and `unreadable` reports and results
    that were refused.
    """

    __test__ = False

    count: int = 0
    failed: int = 0
    unreadable: int = 0
    failures: dict[str, FailedTest] = field(default_factory=dict)

    def add(self, executions: Sequence[Execution]) -> None:
        """Count the executions, and keep the first failure of each test."""
        self.count += len(executions)
        for each in executions:
            if each.conclusion is not Conclusion.FAILED:
                continue
            self.failed += 1
            if each.test_name not in self.failures:
                self.failures[each.test_name] = (
                    FailedTest(
                        each.test_name, each.failure_type, each.failure_message, each.filepath
                    )
                    if len(self.failures) < _MAX_MESSAGES
                    else FailedTest(each.test_name)
                )


@dataclass(frozen=True, slots=True)
class Decision:
    """An exit status, its reason, and the failures behind it in the order of the reports."""

    exit_status: int
    reason: str
    blocking: Sequence[FailedTest] = ()
    quarantined: Sequence[FailedTest] = ()


def decide(
    results: TestResults,
    quarantined: Mapping[str, str],
    test_exit_code: int | None,
    failure_exit_codes: Collection[int] = (),
) -> Decision:
    """Decide by the quarantines of the target branch, a map from test name to reason.

    `test_exit_code` is the exit status of the test command, and `failure_exit_codes` are those with
    which it says that tests failed, each if known. A job without results, or with results that
    cannot be read, is blocked.
    """
    failures = results.failures.values()
    blocking = [each for each in failures if each.test_name not in quarantined]
    excused = [each for each in failures if each.test_name in quarantined]
    if results.unreadable:
        reason = f"reports or results were refused: {results.unreadable:,}"
    elif not results.count:
        reason = "no test result was found"
    elif blocking:
        reason = f"{_failed_tests_are(len(blocking))} not quarantined"
    elif test_exit_code and not excused:
        reason = f"the test command exited with {test_exit_code}, and no test failed"
    elif test_exit_code and not _says_failed(test_exit_code, failure_exit_codes, results.failed):
        reason = (
            f"the test command exited with {test_exit_code}, which does not say that tests failed"
        )
    elif excused:
        return Decision(0, f"{_failed_tests_are(len(excused))} quarantined", (), excused)
    else:
        return Decision(0, "no test failed")
    return Decision(1, reason, blocking, excused)


def decide_alone(results: TestResults, test_exit_code: int | None) -> Decision:
    """Decide without the service: the job keeps the result of its tests."""
    failures = tuple(results.failures.values())
    if test_exit_code is not None:
        reason = f"the test command exited with {test_exit_code}"
        return Decision(min(test_exit_code, MAX_EXIT_STATUS), reason, failures)
    decision = decide(results, {}, None)
    return Decision(decision.exit_status, decision.reason, failures)


def _says_failed(exit_code: int, known: Collection[int], failed: int) -> bool:
    """Return whether a test command says by this exit status that tests failed."""
    if known:
        return exit_code in known
    # Mocha and Robot Framework return the number of failed tests.
    ended_badly = exit_code in _OF_SHELLS or exit_code > MAX_EXIT_STATUS
    return not ended_badly or exit_code == failed


def _failed_tests_are(number: int) -> str:
    return "1 failed test is" if number == 1 else f"{number:,} failed tests are"
