"""Merges the cases that pytest writes for the attempts and the parts of one test. Pure.

JUnit's schema allows one failure in a case, and pytest has no mark for a retry. If several
processes run the tests, cases of other processes can come between those of one test.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from indexing.junit.cases import RefusedCase, ReportCase
from indexing.models.executions import Conclusion

# The second case of a test that failed, and whose teardown failed too. It is still one execution.
_TEARDOWN: Final = "failed on teardown with"
# The names of pytest's suites, unless the option `junit_suite_name` sets another one.
PYTEST_SUITES: Final = frozenset({"pytest", "pytest tests"})
# How many cases may come between: more than processes that run tests at once.
_MAX_BETWEEN: Final = 256


class AttemptMerger:
    """Passes the cases of a report on to `give`, one for each execution of a test.

    pytest-rerunfailures leaves a case without a failure behind for each attempt that failed and was
    run again: https://github.com/pytest-dev/pytest-rerunfailures/issues/170. So in a suite of
    pytest, a passed case counts only if no other of its name follows, and the last one needed
    retries if it passed. Cases of such a suite are passed on a little later.
    """

    def __init__(self, give: Callable[[ReportCase | RefusedCase], None]) -> None:
        self._give = give
        self._is_pytest = False
        # The newest failed cases of the suite that a second part may follow, by name.
        self._failed: OrderedDict[str, None] = OrderedDict()
        # The newest passed cases of a suite of pytest that another attempt may follow.
        self._passed: OrderedDict[str, ReportCase] = OrderedDict()

    def start_suite(self, *, is_pytest: bool) -> None:
        self.end_suite()
        self._is_pytest = is_pytest

    def end_suite(self) -> None:
        """Pass on what is left of the suite."""
        self._failed.clear()
        for case in self._passed.values():
            self._give(case)
        self._passed.clear()

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
        was_retried = self._passed.pop(name, None) is not None
        if case.conclusion is Conclusion.FAILED:
            self._failed[name] = None
            if len(self._failed) > _MAX_BETWEEN:
                self._failed.popitem(last=False)
        if case.conclusion is not Conclusion.PASSED or not self._is_pytest:
            self._give(case)
            return
        self._passed[name] = replace(case, needed_retries=True) if was_retried else case
        if len(self._passed) > _MAX_BETWEEN:
            self._give(self._passed.popitem(last=False)[1])
