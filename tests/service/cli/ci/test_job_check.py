"""`mergewatch ci junit` against a real service: what it decides, prints and leaves alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from indexing.store.interface import ExecutionCount
from indexing.store.sqlite.store import SqliteStore
from indexing.timestamps import format_timestamp
from service.cli import main
from tests.builders import NOON
from tests.indexing.ci.environments import GITHUB_PULL, pull_event
from tests.service.cli.ci.jobs import FAILED, OTHER, PASSED, JobCheck, quarantine, read, write
from tests.service.cli.ci_environment import enter
from tests.service.front_door import SEARCH, FrontDoor

SAMPLES = Path(__file__).parents[3] / "samples" / "junit"


async def test_a_job_without_failures_is_not_blocked(door: FrontDoor, check: JobCheck) -> None:
    result = await check(cases=(PASSED,))
    assert result.stdout == "not blocked: no test failed\n"
    reader = await door.new_key()
    found = await door.get(f"{SEARCH}?test_name=*", key=reader)
    # The branch is not the default one, so the result is stored and not listed.
    assert found.status == 200


async def test_a_failure_blocks_the_job(check: JobCheck) -> None:
    result = await check(cases=(PASSED + OTHER,), code=1)
    assert result.stdout.splitlines() == [
        "1 failed, not quarantined:",
        "  c",
        "      broke",
        "",
        "blocked: 1 failed test is not quarantined",
    ]


async def test_a_quarantined_failure_does_not_block_the_job(
    door: FrontDoor, check: JobCheck
) -> None:
    await quarantine(door, "b", "c")
    result = await check(cases=(PASSED + FAILED, OTHER))
    assert result.stdout.splitlines()[-1] == "not blocked: 2 failed tests are quarantined"


async def test_a_job_does_not_excuse_its_own_failures(check: JobCheck) -> None:
    words = ["repository", "set", "acme/widgets", "--auto-quarantine", "on"]
    turned_on = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert turned_on.exit_code == 0, turned_on.output
    # Its first failure on the default branch begins an automatic quarantine of a new test.
    started = f"--started-at={format_timestamp(NOON)}"
    first = await check("--branch=main", started, cases=(FAILED,), code=1)
    assert "blocked: 1 failed test is not quarantined" in first.stdout
    later = await check("--branch=main", "--run-id=2", started, cases=(FAILED,))
    assert "not blocked: 1 failed test is quarantined" in later.stdout


async def test_quarantined_and_other_failures_are_printed_apart(
    door: FrontDoor, check: JobCheck
) -> None:
    await quarantine(door, "b")
    result = await check(cases=(FAILED + OTHER,), code=1)
    quarantined, blocking = result.stdout.split("\n\n")[:2]
    assert quarantined.splitlines()[:2] == ["1 failed, quarantined on topic:", "  b"]
    assert blocking.splitlines()[:2] == ["1 failed, not quarantined:", "  c"]


async def test_the_target_branch_has_the_quarantines_that_count(
    door: FrontDoor, check: JobCheck
) -> None:
    await quarantine(door, "b", branch="release/*")
    await check(cases=(FAILED,), code=1)
    await check("--target-branch=release/1", cases=(FAILED,))
    await check("--target-branch=main", cases=(FAILED,), code=1)


async def test_a_pull_request_is_judged_by_its_base(
    door: FrontDoor, check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    await quarantine(door, "b", branch="main")
    enter(monkeypatch, GITHUB_PULL, pull_event(ref="topic"))
    await check(cases=(FAILED,))


async def test_a_report_without_results_blocks_the_job(check: JobCheck) -> None:
    result = await check(cases=("",), code=1)
    assert result.stdout == "blocked: no test result was found\n"


@pytest.mark.parametrize(
    ("case", "reason"),
    [("", "no test result was found"), ("<testcase/>", "reports or results were refused: 1")],
)
async def test_no_result_blocks_also_in_a_repository_without_any(
    check: JobCheck, case: str, reason: str
) -> None:
    arguments = ("--repository=acme/new", "--test-exit-code=0")
    result = await check(*arguments, cases=(case,), code=1)
    assert result.stdout == f"blocked: {reason}\n"
    assert "warning" not in result.stderr


async def test_a_report_that_cannot_be_read_blocks(check: JobCheck) -> None:
    write("bad.xml", "<testsuite><testcase name='x'>")
    result = await check("bad.xml", cases=(PASSED,), code=1)
    assert result.stdout == "blocked: reports or results were refused: 1\n"
    assert "refused: bad.xml" in result.stderr
    await check("missing.xml", cases=(PASSED,), code=1)


@pytest.mark.parametrize(
    ("cases", "exit_code", "blocked"),
    [
        ((PASSED,), 0, False),
        ((PASSED,), 3, True),
        ((FAILED,), 3, False),
        ((FAILED,), 0, False),
        # `timeout`, a command that is not there, and one that a signal has ended.
        ((FAILED,), 124, True),
        ((FAILED,), 127, True),
        ((FAILED,), 139, True),
        # Of Windows.
        ((FAILED,), 3_221_225_477, True),
        ((FAILED,), 255, False),
        # Some runners return the number of failed tests.
        ((FAILED,) * 130, 130, False),
    ],
)
async def test_a_crash_of_the_test_command_blocks(
    door: FrontDoor, check: JobCheck, cases: tuple[str, ...], exit_code: int, blocked: bool
) -> None:
    await quarantine(door, "b")
    await check(f"--test-exit-code={exit_code}", cases=cases, code=int(blocked))


@pytest.mark.parametrize(("exit_code", "blocked"), [(0, False), (1, False), (2, True), (139, True)])
async def test_what_says_that_tests_failed_can_be_given(
    door: FrontDoor, check: JobCheck, exit_code: int, blocked: bool
) -> None:
    await quarantine(door, "b")
    options = (f"--test-exit-code={exit_code}", "--failure-exit-code=1")
    result = await check(*options, cases=(FAILED,), code=int(blocked))
    if blocked:
        assert result.stdout.endswith(
            f"blocked: the test command exited with {exit_code},"
            " which does not say that tests failed\n"
        )
    # Two runners in one job.
    await check(*options, "--failure-exit-code=139", cases=(FAILED,), code=int(exit_code == 2))


async def test_a_suite_that_fails_without_a_failed_test_blocks(
    door: FrontDoor, check: JobCheck
) -> None:
    await quarantine(door, "b")
    result = await check(cases=(f"{PASSED}<error message='cannot be loaded'/>", FAILED), code=1)
    assert "outside of its test cases: cannot be loaded" in result.stderr
    assert result.stdout.endswith("blocked: reports or results were refused: 1\n")


@pytest.mark.parametrize("sample", ["pytest__junit.fail.xml"])
async def test_a_real_report_blocks_until_its_failures_are_quarantined(
    door: FrontDoor, check: JobCheck, sample: str
) -> None:
    result = await check(str(SAMPLES / sample), code=1)
    failed = [line.strip() for line in result.stdout.splitlines() if line[:3] != "   "][1:-2]
    await quarantine(door, *failed)
    await check(str(SAMPLES / sample))


async def test_without_a_service_the_local_store_decides(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MERGEWATCH_URL")
    monkeypatch.delenv("MERGEWATCH_TOKEN")
    await check(cases=(PASSED, FAILED), code=1)
    added = await asyncio.to_thread(
        CliRunner().invoke,
        main,
        ["quarantine", "add", "--repository=acme/widgets", "--test=b", "--reason=x"],
    )
    assert added.exit_code == 0, added.output
    await check(cases=(PASSED, FAILED))


async def test_github_gets_annotations_and_a_summary(
    door: FrontDoor, check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    await quarantine(door, "b")
    hostile = (
        "<testcase name='&lt;img src=x&gt;::error::,%'><failure>@all &lt;b&gt;</failure></testcase>"
    )
    enter(monkeypatch, GITHUB_PULL, pull_event(ref="topic"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    write("summary.md", "before\n")
    result = await check(cases=(FAILED + hostile,), code=1)
    lines = result.stdout.splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    printed, annotations = (
        lines[1 : lines.index(f"::{token}::")],
        lines[lines.index(f"::{token}::") + 1 :],
    )
    assert "      E: ::set-output::x" in printed
    assert annotations == [
        "::error title=<img src=x>%3A%3Aerror%3A%3A%2C%25::@all <b>",
        "::warning file=t/b.py,title=Quarantined on main%3A b::E: ::set-output::x%0Asecond",
    ]
    summary = read("summary.md")
    assert summary.startswith("before\n### Blocked: 1 failed test is not quarantined\n")
    assert "<img" not in summary
    assert "<code>@all &lt;b&gt;</code>" in summary


async def test_a_summary_names_the_branch_as_it_is(
    door: FrontDoor, check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    await quarantine(door, "b")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    await check("--target-branch=Release/2.X", cases=(FAILED,))
    assert "<p>1 failed, quarantined on Release/2.X</p>" in read("summary.md")


async def test_a_summary_that_cannot_be_written_changes_nothing(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/folder")
    result = await check(cases=(PASSED,))
    assert "warning: the step summary cannot be written" in result.stderr


async def test_thousands_of_failures_print_a_screenful(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A service would read so many in a process of its own, which changes nothing here.
    monkeypatch.delenv("MERGEWATCH_URL")
    monkeypatch.delenv("MERGEWATCH_TOKEN")
    cases = "".join(
        f"<testcase name='t{number}'><failure>{'x' * 100}</failure></testcase>"
        for number in range(2_000)
    )
    result = await check(cases=(cases,), code=1)
    assert len(result.stdout.splitlines()) < 200
    assert "  and 1,950 more" in result.stdout


async def test_a_large_report_may_take_its_time_over_a_store(
    door: FrontDoor, check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MERGEWATCH_URL")
    monkeypatch.delenv("MERGEWATCH_TOKEN")
    await quarantine(door, "b")
    write_results = SqliteStore.write_results

    async def write_slowly(*arguments: Any) -> ExecutionCount:
        await asyncio.sleep(1.1)
        return await write_results(*arguments)

    monkeypatch.setattr(SqliteStore, "write_results", write_slowly)
    result = await check("--timeout=1", cases=(PASSED + FAILED,))
    assert result.stderr == "read 2, written 2, unchanged 0, refused 0\n"
    assert result.stdout.endswith("not blocked: 1 failed test is quarantined\n")
