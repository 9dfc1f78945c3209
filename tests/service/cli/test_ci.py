"""`mergewatch ingest junit` in a CI job: what it detects, prints and uploads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from mergewatch.client import transport
from service.cli import main
from service.cli.parameters import EVENT_MAX_BYTES
from tests.indexing.ci.environments import GITHUB, GITHUB_PULL, GITLAB, pull_event
from tests.service.cli.ci_environment import enter
from tests.service.cli.conftest import Command
from tests.service.receiver import TOKEN, Receiver, accept, answer, receiving, reject_one

REPORT = (
    "<testsuite><testcase classname='a' name='b'/>"
    "<testcase name='c'><error/></testcase></testsuite>"
)
MANIFEST = """file,pipeline_name,job_name,branch,commit,started_at,run_id
r.xml,ci,unit,main,1,2026-09-01T12:00:00Z,1
r.xml,ci,unit,main,2,2026-09-02T12:00:00Z,2
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("r.xml").write_text(REPORT)
    Path("bad.xml").write_text("<testsuite>")
    Path("m.csv").write_text(MANIFEST)
    return "r.xml"


def has_store(settings: Mapping[str, str]) -> bool:
    return Path(settings["MERGEWATCH_DATA_DIR"]).exists()


def stored_runs(settings: Mapping[str, str]) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(Path(settings["MERGEWATCH_DATA_DIR"]) / "mergewatch.db")
    rows = connection.execute(
        "SELECT p.owner || '/' || p.name, b.name, commit_sha, pipeline_name, job_name, run_id,"
        " attempt, pull_number, pull FROM runs r JOIN branches b ON b.id = r.branch"
        " JOIN repositories p ON p.id = r.repository_id"
    ).fetchall()
    connection.close()
    return rows


def test_a_job_needs_no_option_and_sees_what_was_found(
    command: Command, settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(monkeypatch, GITHUB_PULL, pull_event(ref="mend"))
    found = command("ingest", "junit", report).stderr.splitlines()
    assert found[0] == (
        "from GitHub Actions: repository acme/widgets, branch mend, commit 0ddba11,"
        " pipeline Tests, job unit, run 7001, attempt 2, pull request 17"
    )
    assert found[-1] == "read 2, written 2, unchanged 0, refused 0"
    (run,) = stored_runs(settings)
    assert run[:8] == ("acme/widgets", "mend", "0ddba11", "Tests", "unit", "7001", 2, 17)
    assert orjson.loads(str(run[8]))["user_login"] == "mona"


@pytest.mark.parametrize("words", [("r.xml", "--branch=main"), ("--manifest=m.csv",)])
def test_files_of_tests_are_relative_to_the_folder_of_the_repository(
    command: Command,
    settings: Mapping[str, str],
    report: str,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    enter(monkeypatch, GITHUB | {"GITHUB_WORKSPACE": "/home/runner/work/w/w"}, {})
    case = '<testcase name="n" file="/home/runner/work/w/w/tests/a.php"/>'
    Path(report).write_text(f"<testsuite>{case}</testsuite>")
    command("ingest", "junit", *words)
    with closing(sqlite3.connect(Path(settings["MERGEWATCH_DATA_DIR"]) / "mergewatch.db")) as store:
        assert store.execute("SELECT filepath FROM tests").fetchall() == [("tests/a.php",)]


def test_options_stand_above_the_environment(
    command: Command, settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(monkeypatch, GITHUB_PULL, pull_event(ref="mend"))
    options = ("--job=unit (linux)", "--branch=main", "--attempt=5", "--pull-request=18")
    told = command("ingest", "junit", report, *options).stderr
    assert "branch" not in told
    assert "job" not in told
    (run,) = stored_runs(settings)
    assert run[1] == "main"
    assert run[4:] == ("unit (linux)", "7001", 5, 18, "")


def test_another_run_has_none_of_the_attempts_and_pull_requests_of_this_one(
    command: Command, settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(monkeypatch, GITHUB_PULL, pull_event())
    command("ingest", "junit", report, "--run-id=6000")
    command("ingest", "junit", report, "--repository=acme/gadgets")
    assert [run[6:] for run in stored_runs(settings)] == [(1, -1, ""), (1, -1, "")]


def test_a_ci_that_cannot_name_its_repository_still_knows_its_own_run(
    command: Command, settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(
        monkeypatch,
        GITLAB | {"CI_PROJECT_PATH": "acme/tools/widgets", "CI_MERGE_REQUEST_IID": "17"},
        None,
    )
    command("ingest", "junit", report, "--repository=acme/widgets")
    command("ingest", "junit", report, "--repository=acme/widgets", "--run-id=6000")
    found = sorted(run[5:8] for run in stored_runs(settings))
    assert found == [("6000", 1, -1), ("7001", 1, 17)]


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, "--repository, --branch, --commit, --pipeline, --job, --run-id"),
        (
            GITHUB | {"GITHUB_EVENT_NAME": "workflow_run"},
            "--branch, --commit, --pipeline, --job, --run-id",
        ),
        (GITLAB | {"CI_PROJECT_PATH": "a/b/c", "CI_JOB_NAME": ""}, "--repository, --job"),
    ],
    ids=["none", "github", "gitlab"],
)
def test_values_missing_in_the_environment_are_required_as_options(
    command: Command,
    report: str,
    monkeypatch: pytest.MonkeyPatch,
    environment: Mapping[str, str],
    options: str,
) -> None:
    enter(monkeypatch, environment, {})
    assert f"Missing {options}." in command("ingest", "junit", report, code=2).stderr


def test_an_environment_that_cannot_be_stored_is_named_and_shown_safely(
    command: Command, report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(monkeypatch, GITHUB | {"GITHUB_WORKFLOW": "x" * 9_000}, {})
    assert "pipeline_name" in command("ingest", "junit", report, code=2).stderr
    monkeypatch.setenv("GITHUB_WORKFLOW", "a\x1b[31mb")
    assert "pipeline a\\x1b[31mb" in command("ingest", "junit", report).stderr


@pytest.mark.parametrize("size", [None, 2, EVENT_MAX_BYTES + 1])
def test_an_unreadable_event_is_reported_and_does_not_stop_the_load(
    command: Command, report: str, monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    enter(monkeypatch, GITHUB, {})
    Path("event.json").unlink()
    if size is not None:
        with Path("event.json").open("wb") as event:
            event.truncate(size)
    assert "ignored: GITHUB_EVENT_PATH" in command("ingest", "junit", report).stderr


@pytest.mark.parametrize("alone", ["URL", "TOKEN"])
def test_half_of_an_upload_is_a_usage_error(
    command: Command, report: str, monkeypatch: pytest.MonkeyPatch, alone: str
) -> None:
    monkeypatch.setenv(f"MERGEWATCH_{alone}", "https://merge.acme.example")
    refused = command("ingest", "junit", report, code=2).stderr
    assert "MERGEWATCH_URL" in refused
    assert "MERGEWATCH_TOKEN" in refused


@pytest.fixture
async def receiver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        monkeypatch.setenv("MERGEWATCH_URL", opened.url + "/")
        monkeypatch.setenv("MERGEWATCH_TOKEN", TOKEN + "\n")
        yield opened


async def run(*arguments: str) -> Result:
    """Run `mergewatch`, which has its own event loop, in a thread."""
    invoke = partial(CliRunner().invoke, main, arguments, catch_exceptions=False)
    return await asyncio.to_thread(invoke)


async def test_reports_are_uploaded_and_no_store_is_opened(
    settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    enter(monkeypatch, GITHUB, {})
    result = await run("ingest", "junit", report, "bad.xml")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "read 3, written 2, unchanged 0, refused 1"
    assert f"uploading to {receiver.url}\n" in result.stderr
    assert TOKEN not in result.output
    ((path, credential, _),) = receiver.requests
    assert path == "/v1/ci/acme/repositories/widgets/traces"
    assert credential == f"Bearer {TOKEN}"
    assert not has_store(settings)


async def test_rejected_results_count_as_refused(
    settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    enter(monkeypatch, GITHUB, {})
    receiver.answers = [reject_one]
    result = await run("ingest", "junit", report)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "read 2, written 1, unchanged 0, refused 1"
    assert TOKEN not in result.output


async def test_an_upload_that_waits_for_the_service_says_so(
    settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    enter(monkeypatch, GITHUB, {})
    monkeypatch.setattr(transport, "seconds_to_wait", lambda *_: 0)
    receiver.answers = [answer(503), accept]
    result = await run("ingest", "junit", report)
    assert result.exit_code == 0
    assert "the service is unavailable or busy; trying again in 0 s\n" in result.stderr


async def test_a_service_that_refuses_the_key_is_one_line(
    settings: Mapping[str, str], report: str, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    enter(monkeypatch, GITHUB, {})
    receiver.answers = [answer(403, '{"title": "Forbidden"}')]
    result = await run("ingest", "junit", report)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"Error: {receiver.url} answered 403 Forbidden"
    assert TOKEN not in result.output


async def test_a_manifest_is_uploaded_run_by_run(
    settings: Mapping[str, str], report: str, receiver: Receiver
) -> None:
    result = await run("ingest", "junit", "--repository=acme/widgets", "--manifest=m.csv")
    assert result.exit_code == 0
    assert len(receiver.requests) == 2
