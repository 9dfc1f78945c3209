"""`mergewatch ingest undo` and `mergewatch tests forget`: remove data loaded by mistake."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from indexing.models.executions import Conclusion
from service.cli.running import with_store
from tests.builders import WIDGETS, make_executions, make_run
from tests.service.cli.conftest import ON_EVERY_STORE, Command

pytestmark = ON_EVERY_STORE

RUN = ("--branch=main", "--commit=c0ffee", "--pipeline=ci", "--job=unit")
WHERE = "--repository=acme/widgets"


@pytest.fixture
def loaded(command: Command, tmp_path: Path) -> Command:
    """Two runs of two tests."""
    report = tmp_path / "r.xml"
    report.write_text("<testsuite><testcase name='a'/><testcase name='b'/></testsuite>")
    for run, day in (("1", "01"), ("2", "02")):
        command(
            *("ingest", "junit", str(report), WHERE, *RUN),
            *(f"--run-id={run}", f"--started-at=2026-11-{day}T00:00:00Z"),
        )
    return command


def held(command: Command, name: str) -> int:
    words = [line.rsplit(maxsplit=1) for line in command("index", "status").stdout.splitlines()]
    return int(dict(words)[name])


def test_undo_says_what_it_would_remove_and_asks(loaded: Command) -> None:
    told = loaded("ingest", "undo", WHERE, "--run-id=1", code=1, input=b"n\n").stderr
    assert "2 results of 2 tests, from 2026-11-01T00:00:00Z to 2026-11-01T00:00:00Z" in told
    assert held(loaded, "executions") == 4
    done = loaded("ingest", "undo", WHERE, "--run-id=1", input=b"y\n").stderr
    assert done.endswith("removed 2 results\n")
    assert held(loaded, "executions") == 2
    assert (
        "no results of that run"
        in loaded(*("ingest", "undo", WHERE, "--run-id=1", "--yes"), code=1).stderr
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (WHERE,),
        ("--run-id=1",),
        (WHERE, "--run-id=1", "--attempt=0"),
        ("--misdated", "--run-id=1"),
        ("--misdated", "--job=unit"),
    ],
)
def test_wrong_usage_removes_nothing(loaded: Command, arguments: tuple[str, ...]) -> None:
    loaded("ingest", "undo", *arguments, "--yes", code=2)
    assert held(loaded, "executions") == 4


def test_wrong_dates_of_an_older_store_are_healed_by_one_command(
    loaded: Command, settings: Mapping[str, str]
) -> None:
    del settings
    run = make_run("9", commit="x")
    ends = datetime(2262, 4, 11, tzinfo=UTC)
    with_store(
        lambda store: store.write_results(
            WIDGETS, {run: make_executions(run, [("a", Conclusion.SKIPPED)], ends)}
        )
    )
    told = loaded("ingest", "undo", "--misdated", "--yes").stderr
    assert "1 result of 1 test, from 2262-04-11T00:00:00Z" in told
    assert (held(loaded, "executions"), held(loaded, "stale tests")) == (4, 0)
    assert "no misdated results found" in loaded("ingest", "undo", "--misdated", "--yes").stderr


def test_a_test_is_forgotten_with_all_its_results(loaded: Command) -> None:
    loaded("quarantine", "add", WHERE, "--test=a", "--reason=mine")
    told = loaded("tests", "forget", WHERE, "--test=a", code=1, input=b"").stderr
    assert "2 results of 1 test," in told
    assert told.splitlines()[0].endswith(
        ", 0 automatic quarantines; to be kept: 1 manual quarantine"
    )
    assert held(loaded, "tests") == 2
    done = loaded("tests", "forget", WHERE, "--test=a", "--yes").stderr
    assert done.endswith("forgot 1 test and 2 results\n")
    assert [held(loaded, name) for name in ("tests", "executions", "quarantines")] == [1, 2, 1]
    assert (
        "no test of that name"
        in loaded(*("tests", "forget", WHERE, "--test=a", "--yes"), code=1).stderr
    )
