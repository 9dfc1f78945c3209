"""Merges the cases that pytest writes for the attempts and the parts of one test. Pure.

JUnit's schema allows one failure in a case, and pytest has no mark for a retry. If several
processes run the tests, cases of other processes can come between those of one test.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from indexing.junit.cases import RefusedCase, ReportCase
from indexing.models.executions import Conclusion

# The second case of a test that failed, and whose teardown failed too. It is still one execution.
_TEARDOWN: Final = "failed on teardown with"
# The names of pytest's suites, unless the option `junit_suite_name` sets another one.
PYTEST_SUITES: Final = frozenset({"pytest", "pytest tests"})
# How many cases may come between: more than processes that run tests at once.
_MAX_BETWEEN: Final = 256


@dataclass(slots=True)
class _Waiting:
    """A case that waits for its turn; None if another attempt has taken its place."""

    case: ReportCase | None


class AttemptMerger:
    """Passes the cases of a report on to `give` in their order, one for each execution of a test.

    pytest-rerunfailures leaves a case without a failure behind for each attempt that failed and was
    run again. So in a suite of pytest, a passed case counts only if no other of its name follows,
    and the last one needed retries if it passed. Such suites are passed on a little later.
    """

    def __init__(self, give: Callable[[ReportCase | RefusedCase], None]) -> None:
        self._give = give
        self._is_pytest = False
        # The newest failed cases of the suite that a second part may follow, by name.
        self._failed: OrderedDict[str, None] = OrderedDict()
        # The newest cases of a suite of pytest, and those that another attempt may follow, by name.
        self._waiting: deque[_Waiting] = deque()
        self._passed: dict[str, _Waiting] = {}

    def enter_suite(self, *, is_pytest: bool) -> None:
        """Begin a suite, or return to the outer one. Passes on all cases that still wait."""
        self._failed.clear()
        while self._waiting:
            self._give_first()
        self._is_pytest = is_pytest

    def add(self, case: ReportCase | RefusedCase) -> None:
        """Take a finished case."""
        if isinstance(case, RefusedCase):
            self._give(case)
            return
        name = case.test_name
        has_failed = name in self._failed
        self._failed.pop(name, None)
        if has_failed and (case.failure_message or "").startswith(_TEARDOWN):
            # A third case of that name is another attempt, not another part of this one.
            return
        if case.conclusion is Conclusion.FAILED:
            self._failed[name] = None
            if len(self._failed) > _MAX_BETWEEN:
                self._failed.popitem(last=False)
        if self._is_pytest:
            self._wait(case)
        else:
            self._give(case)

    def _wait(self, case: ReportCase) -> None:
        """Take a case of a suite of pytest in place of an earlier attempt that passed."""
        name, has_passed = case.test_name, case.conclusion is Conclusion.PASSED
        earlier = self._passed.pop(name, None)
        if earlier is not None:
            earlier.case = None
            case = replace(case, needed_retries=case.needed_retries or has_passed)
        waiting = _Waiting(case)
        self._waiting.append(waiting)
        if has_passed:
            self._passed[name] = waiting
        if len(self._waiting) > _MAX_BETWEEN:
            self._give_first()

    def _give_first(self) -> None:
        first = self._waiting.popleft()
        if first.case is not None:
            if self._passed.get(first.case.test_name) is first:
                del self._passed[first.case.test_name]
            self._give(first.case)
