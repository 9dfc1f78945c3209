"""What the dashboard shows in its tests: a flaky, a broken and a healthy test, and hostile ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from indexing.failures.traces import pack_trace
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, PullRequest
from indexing.models.quarantines import QuarantineRequest
from indexing.owners.rules import MAX_OWNER_LENGTH
from indexing.store.interface import Store
from tests.builders import NOON, PULL, WIDGETS, make_executions, make_run

FLAKY: Final = "tests/test_hinge.py::test_the_hinge_swings"
BROKEN: Final = "tests/test_lid.py::test_the_lid_closes"
HEALTHY: Final = "tests/test_box.py::test_the_box_stands"
# This text is in the stack trace only.
SECRET_OF_TRACE: Final = "hinge.py:17: the spring is missing"

# Text that would be markup, a template, a script, an attribute, or would turn the text around it.
HOSTILE: Final[Sequence[str]] = (
    '<img src=x onerror="document.title=1"><script>alert(1)</script>',
    "\"' onmouseover='alert(2)' autofocus onfocus='alert(3)",
    "{{ 7 * 7 }}{% raw %}</textarea></title></option></style><svg onload=alert(4)>",
    "\u202etxet desrever\u2066 \u200f\x1b[31m one\r\ntwo\tthree",
    "javascript:alert(5)//" + "long" * 800,
)


async def load_shown(store: Store, days: int = 14) -> None:
    """Load one result a day for this many days, in two jobs; the newest are an hour old."""
    await store.ensure_repository(WIDGETS)
    for number in range(days):
        at = NOON - timedelta(days=days - 1 - number, hours=1)
        for job in ("linux", "windows"):
            flaky = job == "windows" and number in (6, 11)
            run = make_run(
                f"{number}-{job}",
                job=job,
                commit=hashlib.sha256(str(number).encode()).hexdigest()[:40],
                pull=PULL if number == 6 else None,
                job_url=f"https://ci.example/{number}/{job}",
            )
            results = [
                (FLAKY, Conclusion.FAILED if flaky else Conclusion.PASSED),
                (BROKEN, Conclusion.FAILED if number >= days - 4 else Conclusion.PASSED),
                (HEALTHY, Conclusion.PASSED),
            ]
            executions = make_executions(
                run, results, at, duration=0.25, filepath="tests/test_x.py"
            )
            executions = [
                replace(
                    each,
                    failure_type="AssertionError",
                    failure_message=f"expected 5, got {number}",
                    failure_trace=pack_trace(f"Traceback:\n  {SECRET_OF_TRACE}\n"),
                )
                if each.conclusion is Conclusion.FAILED
                else each
                for each in executions
            ]
            await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)


async def load_hostile(store: Store) -> None:
    """Load hostile text into every field that producers of results or users can fill."""
    await store.ensure_repository(WIDGETS)
    owners = (f"@{''.join(text.split())}"[:MAX_OWNER_LENGTH] for text in HOSTILE)
    await store.set_code_owners(WIDGETS, f"* {' '.join(owners)}")
    for number, text in enumerate(HOSTILE):
        run = make_run(
            text,
            pipeline=text,
            job=text,
            branch="main",
            commit=text,
            pull=PullRequest(id=1, number=17, title=text, user_id=1, user_login=text),
            job_url="https://ci.example/run",
        )
        for conclusion, hours in ((Conclusion.PASSED, 3), (Conclusion.FAILED, 2)):
            executions = make_executions(
                replace(run, run_id=f"{hours}{text}"),
                [(text, conclusion)],
                NOON - timedelta(hours=hours),
                framework=text,
                language=text,
                filepath=text,
                failure_type=text,
                failure_message=text,
                failure_trace=pack_trace(text),
            )
            await store.write_results(WIDGETS, {replace(run, run_id=f"{hours}{text}"): executions})
        request = QuarantineRequest(text, text[:900], text[:200], owner=text[:200])
        if number % 2:
            await store.add_quarantine(WIDGETS, request, NOON - timedelta(hours=1))
    await store.refresh_tests(NOON)


def page_of(test_name: str) -> str:
    """Return the path of the page of a test."""
    return f"/ui/acme/widgets/tests/{derive_test_id(WIDGETS, test_name)}"
