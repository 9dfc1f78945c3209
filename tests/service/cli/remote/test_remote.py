"""The commands that read from a running service."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import click
import orjson
import pytest

from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from mergewatch.client import transport
from service.cli import main
from service.cli.remote import connection, rows
from service.server.process import bind
from tests.builders import GADGETS, NOON, WIDGETS, make_event, make_executions, make_run
from tests.client.serving import byte_server, chunked, cut_off
from tests.service.cli.remote.conftest import HOSTILE, OF_WIDGETS, SHOWN, Run
from tests.service.front_door import A_TEST_ID, LOGS, ROOT, SEARCH, FrontDoor

RANGE = ("--from", "2026-09-01T12:00:00Z", "--to", "2026-09-02T12:00:00Z")
ONE_FAILURE = ("tests", "failures", *OF_WIDGETS, "x", "--failure", A_TEST_ID)


async def test_a_search_prints_all_of_each_name_into_a_pipe(run: Run) -> None:
    result = await run("tests", "search", *OF_WIDGETS, "--sort", "test_name", "--direction=asc")
    header, first, second = result.stdout.splitlines()
    assert header.split() == ["TEST", "PIPELINE", "JOB"]
    assert first.startswith(f"{SHOWN}  ci")
    assert second.split() == ["suite.ok", "ci", "unit"]
    assert result.stderr == ""
    cut = await run("tests", "search", *OF_WIDGETS, "--limit=1", "suite.*", "x")
    assert len(cut.stdout.splitlines()) == 2
    assert "--limit" in cut.stderr


async def test_a_search_takes_every_filter_and_shows_metrics(run: Run, door: FrontDoor) -> None:
    async def names(*words: str) -> list[str]:
        result = await run("tests", "search", *OF_WIDGETS, *words)
        return [line.split("  ")[0] for line in result.stdout.splitlines()[1:]]

    assert await names("--health=broken") == [SHOWN]
    assert await names("--exclude-health=broken", "--exclude-health=unknown") == ["suite.ok"]
    assert await names("--exclude", "*ok") == [SHOWN]
    assert await names("--file", "*") == []
    assert await names("--owner=@web") == []
    assert await names("--owner=@web", "--owner=none", "--exclude=*ok") == [SHOWN]
    await door.store.add_quarantine(WIDGETS, QuarantineRequest("suite.ok", "r"), NOON)
    assert await names("--quarantined") == ["suite.ok"]
    assert await names("--not-quarantined") == [SHOWN]
    by_failures = ("--sort=failed_executions_count", "--metrics", "--total")
    shown = await run("tests", "search", *OF_WIDGETS, *by_failures)
    header, first, second = shown.stdout.splitlines()
    assert header.split()[3:] == ["HEALTH", "RUNS", "FAILED", "FLAKY", "FAILED", "ON"]
    broken = first.removeprefix(SHOWN).split()
    assert broken == ["ci", "unit", "broken", "1", "1", "0%", "2026-09-01"]
    assert second.split()[3:] == ["healthy", "1", "0", "0%", "-"]
    assert shown.stderr == "2 rows match\n"
    lines = await run("tests", "search", *OF_WIDGETS, *by_failures, "--json", "--limit=1")
    assert orjson.loads(lines.stdout)["metrics"]["failed_executions_count"] == 1
    wrong = await run("tests", "search", *OF_WIDGETS, "--file", "*" * 17, code=2)
    assert f"--file '{'*' * 17}': must" in wrong.stderr


async def test_groups_and_figures_are_shown(run: Run, door: FrontDoor) -> None:
    made = make_run("2", job=HOSTILE)
    executions = make_executions(made, [("suite.ok", Conclusion.PASSED)])
    await door.store.write_results(WIDGETS, {made: executions})
    await door.store.refresh_tests(NOON)
    result = await run("tests", "groups", *OF_WIDGETS, "--by=job")
    header, *rows_ = result.stdout.splitlines()
    assert header.split()[:3] == ["JOB", "TESTS", "BROKEN"]
    assert rows_[0].split() == ["unit", "2", "1", "0", "1", "0", "2", "1"]
    assert rows_[1].startswith(f"{SHOWN}  ")
    cut = await run("tests", "groups", *OF_WIDGETS, "--by=job", "--limit=1")
    assert len(cut.stdout.splitlines()) == 2
    assert "--limit" in cut.stderr
    by_owner = await run("tests", "groups", *OF_WIDGETS, "--by=owner", "--json")
    assert orjson.loads(by_owner.stdout)["value"] is None
    days = ("--from", "2026-08-31T00:00:00Z", "--to", "2026-09-02T00:00:00Z")
    figures = await run("tests", "stats", *OF_WIDGETS, "executions", *days, "--job=unit")
    assert [line.split()[-1] for line in figures.stdout.splitlines()] == [
        *("EXECUTIONS", "0", "2", "2")
    ]
    late = ("--from", days[3], "--to", days[1])
    refused = await run("tests", "stats", *OF_WIDGETS, "executions", *late, code=2)
    assert "--from: must not be after --to" in refused.stderr
    refused = await run("tests", "stats", *OF_WIDGETS, "executions", "--to=Tuesday", code=2)
    assert "'--to': must be a date such as 2026-01-31, or a time with a zone" in refused.stderr
    refused = await run("tests", "stats", *OF_WIDGETS, "total_tests", "--job=unit", code=2)
    assert "--job: " in refused.stderr


async def test_json_is_what_the_api_gives_and_moves_no_terminal(run: Run, door: FrontDoor) -> None:
    for words, target, member in (
        (("tests", "search"), f"{SEARCH}?test_name=*", "tests"),
        (
            ("events", *RANGE),
            f"{LOGS}?received_from={RANGE[1]}&received_to={RANGE[3]}",
            "events",
        ),
    ):
        result = await run(*words, *OF_WIDGETS, "--json")
        pages = await door.walk(f"{target}&per_page=100", member)
        lines = result.stdout.split("\n")[:-1]
        assert [orjson.loads(line) for line in lines] == [row for page in pages for row in page]
        assert all(line.isprintable() for line in lines)
        few = await run(*words, *OF_WIDGETS, "--json", "--limit=1")
        assert few.stdout.split("\n") == [lines[0], ""]


async def test_the_health_of_repositories_is_printed_worst_first(run: Run, door: FrontDoor) -> None:
    await door.store.ensure_repository(GADGETS)
    result = await run("repository", "health", "ACME")
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["acme/widgets", "1", "0", "0", "1", "0", "2026-09-01T12:00:00Z"],
        ["acme/gadgets", "0", "0", "0", "0", "0", "-"],
    ]
    cut = await run("repository", "health", "acme", "--sort=name", "--limit=1")
    assert len(cut.stdout.splitlines()) == 2
    assert "--limit" in cut.stderr
    as_json = await run("repository", "health", "acme", "--json")
    listed = await door.get("/v1/ci/acme/repositories?sort=worst")
    lines = [orjson.loads(line) for line in as_json.stdout.splitlines()]
    assert lines == listed.json["repositories"]
    assert "no such owner" in (await run("repository", "health", "umbrella", code=1)).stderr
    assert "OWNER" in (await run("repository", "health", "a/b", code=2)).stderr


@pytest.mark.parametrize("width", [20, 80, 400])
async def test_on_a_terminal_a_table_fits_and_takes_no_markup(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(rows, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (
        ("tests", "search"),
        ("tests", "search", "--metrics"),
        ("events", *RANGE),
        ("tests", "failures", HOSTILE),
    ):
        result = await run(*words, *OF_WIDGETS)
        assert max(map(len, result.stdout.splitlines())) <= max(width, 80)
        assert result.stdout.replace("\n", "").isprintable()
        # No column is lost.
        assert {"JOB", "TRIGGER", "ID"}.intersection(result.stdout.split())
    if width == 400:
        assert SHOWN in (await run("tests", "search", *OF_WIDGETS)).stdout


async def test_events_are_filtered(run: Run) -> None:
    result = await run("events", *OF_WIDGETS, *RANGE, "--pull-request=7", "--pull-request=9")
    assert [line.split()[1] for line in result.stdout.splitlines()[1:]] == ["#9", "#7"]
    none = await run("events", *OF_WIDGETS, *RANGE, "--outcome", "failure", "--trigger", "x")
    assert len(none.stdout.splitlines()) == 1


async def test_a_search_of_an_older_service_shows_what_it_has(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = b'{"test_id": "x", "test_name": "suite.a", "pipeline_name": "ci", "job_name": "unit"}'
    page = chunked("application/json", b'{"size": 1, "tests": [' + row + b"]}", ended=True)
    async with byte_server(page, page, b"") as (url, _):
        monkeypatch.setenv("MERGEWATCH_URL", url)
        result = await run("tests", "search", *OF_WIDGETS, "--metrics", "--total")
    assert result.stdout.splitlines()[1].split() == ["suite.a", "ci", "unit", *"-----"]
    assert result.stderr == "the service is too old to count the rows that match\n"


@pytest.mark.parametrize(
    ("words", "size"), [((), 51), (("--limit=7",), 8), (("--limit=120",), 100)]
)
async def test_a_table_of_events_reads_no_more_than_it_shows(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], size: int
) -> None:
    page = chunked("application/json", b'{"events": []}', ended=True)
    async with byte_server(page, b"") as (url, heads):
        monkeypatch.setenv("MERGEWATCH_URL", url)
        await run("events", *OF_WIDGETS, *words)
    assert f"per_page={size} " in heads[0].decode().replace("&", " ")


async def test_events_are_followed_and_gone_on_with(run: Run, door: FrontDoor) -> None:
    following = asyncio.create_task(
        run("events", *OF_WIDGETS, "--follow", "--limit=2", "--json", "--pull-request=5")
    )
    number = 1_000
    while not following.done():
        # It cannot be seen from outside when the stream has begun.
        await door.store.write_events([make_event(number + n, pull_request=5 - n) for n in (0, 1)])
        number += 2
        await asyncio.sleep(0.05)
    result = await following
    found = [orjson.loads(line) for line in result.stdout.splitlines()]
    assert [row["pull_request"] for row in found] == [5, 5]
    assert found[0]["id"] + 2 == found[1]["id"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("events", *OF_WIDGETS, "--type", "a.b"), "--type 'a.b': must be one of"),
        (("events", *OF_WIDGETS, "--type=action.merge", "--type=a"), "--type 'a': must be one of"),
        (("events", *OF_WIDGETS, "--base-ref", "x" * 256), "--base-ref: must have"),
        (("events", *OF_WIDGETS, "--follow", "--type=action.me"), "--type 'action.me': must be"),
        (("events", *OF_WIDGETS, "--follow", "--base-ref", ""), "--base-ref: must have"),
        (("events", *OF_WIDGETS, "--follow", "--outcome=failure"), "--outcome cannot be used"),
        (("events", *OF_WIDGETS, "--after", "x"), "--after is for --follow"),
        (("events", "--repository", "widgets"), "'--repository'"),
        (("tests", "search", *OF_WIDGETS, "a", "*" * 17), f"GLOB '{'*' * 17}': must"),
        (("tests", "search", *OF_WIDGETS, "--job", "x" * 3_000), f"--job '{'x' * 60}...': must"),
        (("tests", "search", *OF_WIDGETS, "--owner", "@" * 300), f"--owner '{'@' * 60}...': must"),
        (("tests", "failures", *OF_WIDGETS, "x", "--failure", "y"), "--failure: "),
        ((*ONE_FAILURE, "--branch=main"), "--branch cannot be used with --failure"),
        ((*ONE_FAILURE, "--limit=1"), "--limit cannot be used with --failure"),
        # Arguments that are not UTF-8 arrive so.
        (("tests", "search", *OF_WIDGETS, "\udcff"), "'[GLOB]...': must not hold a lone surrogate"),
        (("tests", "search", *OF_WIDGETS, "--not-job", "\udcff"), "'--not-job': must not"),
        (("tests", "show", *OF_WIDGETS, "\udcff"), "'TEST': must not"),
        (("tests", "failures", *OF_WIDGETS, "x", "--failure", "\udcff"), "'--failure': must not"),
        (("tests", "stats", *OF_WIDGETS, "executions", "--job", "\udcff"), "'--job': must not"),
        (("events", *OF_WIDGETS, "--trigger", "\udcff"), "'--trigger': must not"),
        (("events", *OF_WIDGETS, "--follow", "--after", "\udcff"), "'--after': must not"),
    ],
)
async def test_a_wrong_value_names_its_option(run: Run, words: tuple[str, ...], said: str) -> None:
    assert said in (await run(*words, code=2)).stderr


async def test_what_the_service_refuses_is_one_clear_line(
    run: Run, door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = await run("events", "--repository", "acme/absent", code=1)
    assert absent.stderr.startswith("Error: there is no such repository")
    unknown = await run("events", *OF_WIDGETS, "--follow", "--after", "x", code=1)
    assert "leave out --after" in unknown.stderr
    monkeypatch.setenv("MERGEWATCH_TOKEN", await door.new_key(Scope.INGEST))
    refused = await run("tests", "search", *OF_WIDGETS, code=1)
    assert "refuses the key in MERGEWATCH_TOKEN" in refused.stderr
    monkeypatch.delenv("MERGEWATCH_TOKEN")
    assert "MERGEWATCH_TOKEN is not set" in (await run("events", *OF_WIDGETS, code=2)).stderr
    monkeypatch.delenv("MERGEWATCH_URL")
    assert "MERGEWATCH_URL is not set" in (await run("events", *OF_WIDGETS, code=2)).stderr


@pytest.mark.parametrize("option", ["--json", "--limit=2"])
def test_without_standard_output_a_command_says_so(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(click.ClickException, match="standard output is closed"):
        main.main(["tests", "search", *OF_WIDGETS, option], standalone_mode=False)


async def test_a_service_that_is_away_is_waited_for_and_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_: float) -> None:
        pass

    monkeypatch.setattr(connection, "wait_aloud", wait)
    monkeypatch.setattr(transport, "MAX_ATTEMPTS", 2)
    with bind("127.0.0.1", 0) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("MERGEWATCH_URL", address)
    result = await run("tests", "search", *OF_WIDGETS, code=1)
    assert result.stderr.startswith(f"Error: {address} cannot be reached")


async def test_a_busy_service_is_not_called_silent(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "seconds_to_wait", lambda *_: 0)
    busy = cut_off("429 Too Many Requests")
    page = chunked("application/json", b'{"tests": []}', ended=True)
    async with byte_server(busy, page, b"") as (url, _):
        monkeypatch.setenv("MERGEWATCH_URL", url)
        result = await run("tests", "search", *OF_WIDGETS)
    assert result.stderr == "the service is unavailable or busy; trying again in 0 s\n"


# A process that runs in the background of a script has SIGINT ignored, and so have its children.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from service.cli import main
main()
"""


async def start(door: FrontDoor, *words: str) -> asyncio.subprocess.Process:
    environment = {"MERGEWATCH_URL": door.base, "MERGEWATCH_TOKEN": door.key}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND),
        *words,
        *OF_WIDGETS,
        env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_reader_that_goes_away_ends_the_command_quietly(door: FrontDoor) -> None:
    for first in range(1_000, 6_000, 500):
        await door.store.write_events([make_event(first + n) for n in range(500)])
    process = await start(door, "events", *RANGE, "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(60):
        await process.stdout.readline()
        process.stdout._transport.close()  # type: ignore[attr-defined]
        assert await process.stderr.read() == b""
        assert await process.wait() == 1


async def test_ctrl_c_ends_a_follow_and_prints_where_to_resume(door: FrontDoor) -> None:
    process = await start(door, "events", "--follow")
    assert process.stdout is not None
    assert process.stderr is not None
    line = asyncio.create_task(process.stdout.readline())
    number = 1_000
    async with asyncio.timeout(60):
        while not line.done():
            await door.store.write_events([make_event(number, pull_request=3)])
            number += 1
            await asyncio.sleep(0.05)
        assert b"#3 " in await line
        process.send_signal(signal.SIGINT)
        said = (await process.stderr.read()).decode()
        assert await process.wait() == 130
    assert "interrupted" in said
    assert "--follow --after " in said
    assert "Traceback" not in said
