"""Merges the cases that pytest and testthat write for the attempts or the parts of a test. Pure.

JUnit's schema allows one failure in a case, and pytest has no mark for a retry. If several
processes run the tests, cases of other processes can come between those of one test. R's testthat
writes a case for each expectation of a test.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from indexing.junit.cases import RefusedCase, ReportCase
from indexing.models.executions import MAX_DURATION, Conclusion

# The second case of a test that failed, and whose teardown failed too. It is still one execution.
_TEARDOWN: Final = "failed on teardown with"
# The names of pytest's suites, unless the option `junit_suite_name` sets another one.
PYTEST_SUITES: Final = frozenset({"pytest", "pytest tests"})
# How many cases may come between: more than processes that run tests at once.
_MAX_BETWEEN: Final = 256
# The conclusions of expectations, the one that decides for the whole test last.
_WEIGHTS: Final = (Conclusion.PASSED, Conclusion.SKIPPED, Conclusion.FAILED)


@dataclass(slots=True)
class _Waiting:
    """A case that waits for its turn; None if another attempt has taken its place."""

    case: ReportCase | None


class AttemptMerger:
    """Passes the cases of a report on to `give` in their order, one for each execution of a test.

    pytest-rerunfailures leaves a case without a failure behind for each attempt that failed and was
    run again. So in a suite of pytest, a passed case counts only if no other of its name follows,
    and the last one needed retries if it passed. Such suites are passed on a little later.

    In a suite of testthat, neighbours of the same name are the expectations of one test, which has
    failed if one of them did, and else is skipped if one of them is.
    """

    def __init__(self, give: Callable[[ReportCase | RefusedCase], None]) -> None:
        self._give = give
        self._is_pytest = False
        self._is_testthat = False
        # The expectations so far of the newest test of a suite of testthat.
        self._expectations: ReportCase | None = None
        # The newest failed cases of the suite that a second part may follow, by name.
        self._failed: OrderedDict[str, None] = OrderedDict()
        # The newest cases of a suite of pytest, and those that another attempt may follow, by name.
        self._waiting: deque[_Waiting] = deque()
        self._passed: dict[str, _Waiting] = {}

    def enter_suite(self, *, is_pytest: bool, is_testthat: bool) -> None:
        """Begin a suite, or return to the outer one. Passes on all cases that still wait."""
        self._failed.clear()
        while self._waiting:
            self._give_first()
        if self._expectations is not None:
            self._give(self._expectations)
            self._expectations = None
        self._is_pytest = is_pytest
        self._is_testthat = is_testthat

    def add(self, case: ReportCase | RefusedCase) -> None:
        """Take a finished case."""
        if isinstance(case, RefusedCase):
            self._give(case)
            return
        if self._is_testthat:
            self._join(case)
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

    def _join(self, case: ReportCase) -> None:
        """Take the case of one expectation."""
        before = self._expectations
        if before is None or before.test_name != case.test_name:
            if before is not None:
                self._give(before)
            self._expectations = case
            return
        decisive = max(before, case, key=lambda each: _WEIGHTS.index(each.conclusion))
        duration = min((before.duration or 0) + (case.duration or 0), MAX_DURATION)
        self._expectations = replace(decisive, duration=duration)

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
