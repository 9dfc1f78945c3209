"""The commands that show one test and its failures."""

from __future__ import annotations

import orjson

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.service.cli.remote.conftest import HOSTILE, MESSAGE, OF_WIDGETS, SHOWN, Run
from tests.service.front_door import FrontDoor


async def test_a_test_is_shown_by_its_name_or_its_id(run: Run) -> None:
    by_name = await run("tests", "show", *OF_WIDGETS, HOSTILE)
    by_id = await run("tests", "show", *OF_WIDGETS, str(derive_test_id(WIDGETS, HOSTILE)))
    assert by_name.stdout == by_id.stdout
    assert f" {SHOWN}\n" in by_name.stdout
    assert "ci / unit: broken\n" in by_name.stdout
    whole = await run("tests", "show", *OF_WIDGETS, "suite.ok", "--json")
    assert orjson.loads(whole.stdout)["health_status"] == "healthy"
    absent = await run("tests", "show", *OF_WIDGETS, "absent", code=1)
    assert "no such test" in absent.stderr


async def test_a_test_is_shown_with_the_owners_of_its_file(run: Run, door: FrontDoor) -> None:
    async def owners() -> str:
        shown = await run("tests", "show", *OF_WIDGETS, "suite.owned")
        (line,) = [line for line in shown.stdout.splitlines() if line.startswith("owners ")]
        return line.removeprefix("owners").strip()

    report = make_run("owned")
    results = make_executions(report, [("suite.owned", Conclusion.PASSED)], filepath="web/a.py")
    await door.store.write_results(WIDGETS, {report: results})
    await door.store.refresh_tests(NOON)
    assert await owners() == "-"
    await door.store.set_code_owners(WIDGETS, "web/ @acme/web m+m@acme.example")
    assert await owners() == "@acme/web m+m@acme.example"


async def test_failures_are_listed_and_one_is_shown_with_its_trace(run: Run) -> None:
    listed = await run("tests", "failures", *OF_WIDGETS, HOSTILE)
    _, row = listed.stdout.splitlines()
    assert r"expected 1\x1b]0;title\x07 of 2  " in row
    failure_id = row.split()[-1]
    shown = await run("tests", "failures", *OF_WIDGETS, HOSTILE, "--failure", failure_id)
    assert "second line\n" in shown.stdout
    assert "\x1b" not in shown.stdout
    whole = await run("tests", "failures", *OF_WIDGETS, HOSTILE, "--failure", failure_id, "--json")
    assert orjson.loads(whole.stdout)["exception_message"] == MESSAGE
    rows_ = await run("tests", "failures", *OF_WIDGETS, HOSTILE, "--json", "--branch", "topic")
    assert rows_.stdout == ""
