"""`mergewatch ingest`: files from any producer are stored once, whatever interrupts the load."""

from __future__ import annotations

import gzip
import os
import signal
import sqlite3
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import orjson
import pytest
import zstandard

from tests.forked import ForkedCommand, run_forked
from tests.service.cli.conftest import Command
from tests.service.cli.dying import die_after
from tests.service.cli.report import REPORT, RUN

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "samples"
EVENT = {
    "id": 1,
    "received_at": "2026-11-01T00:00:00Z",
    "trigger": "rule",
    "repository": "acme/widgets",
    "pull_request": None,
    "base_ref": None,
    "type": "action.rebase",
    "metadata": {},
}


def lines(*events: object) -> bytes:
    return b"".join(orjson.dumps(event) + b"\n" for event in events)


def dump(settings: Mapping[str, str]) -> list[str]:
    """Return everything in the store except row ids and times of writing."""
    connection = sqlite3.connect(Path(settings["MERGEWATCH_DATA_DIR"]) / "mergewatch.db")
    queries = [
        (
            "SELECT received_at, id, type, pull_request, base_ref, body FROM events"
            " WHERE type NOT LIKE 'ci_insights.auto_quarantine.%' ORDER BY 1, 2"
        ),
        (
            "SELECT test_name, pipeline_name, job_name, executions_count FROM identities"
            " ORDER BY 1, 2, 3"
        ),
        (
            "SELECT test_name, health_status, last_conclusion, failure_ratio, flakiness_ratio,"
            " success_ratio, first_failure_at, first_failure_commit, last_failure_at,"
            " last_success_at"
            " FROM tests ORDER BY 1"
        ),
        "SELECT hex(execution_id), conclusion, finished_at, duration FROM executions ORDER BY 1",
        "SELECT hex(id), test_name, reason, branch, source FROM quarantines ORDER BY 1",
        "SELECT count(*) FROM stale_tests",
    ]
    rows = [repr(row) for query in queries for row in connection.execute(query)]
    connection.close()
    return rows


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("e.ndjson", bytes),
        ("e.ndjson.gz", gzip.compress),
        ("e.ndjson.zst", zstandard.ZstdCompressor().compress),
    ],
)
def test_events_load_from_packed_files_and_twice_is_once(
    command: Command, tmp_path: Path, name: str, pack: object
) -> None:
    file = tmp_path / name
    file.write_bytes(pack(lines(EVENT, EVENT | {"id": 2})))  # type: ignore[operator] # bytes to bytes
    first = command("ingest", "events", str(file))
    assert first.stderr.endswith("read 2, written 2, unchanged 0, refused 0\n")
    again = command("ingest", "events", str(file))
    assert again.stderr.endswith("read 2, written 0, unchanged 2, refused 0\n")
    assert not first.stdout


def test_events_load_from_standard_input(command: Command) -> None:
    result = command("ingest", "events", "-", input=lines(EVENT))
    assert "written 1" in result.stderr


def test_an_event_without_an_id_is_the_same_event_next_time(command: Command) -> None:
    anonymous = {name: value for name, value in EVENT.items() if name != "id"}
    command("ingest", "events", "-", input=lines(anonymous))
    again = command(
        "ingest", "events", "-", input=lines(dict(reversed(anonymous.items())), anonymous)
    )
    assert "written 0, unchanged 2" in again.stderr


def test_refused_lines_go_to_the_dead_letter_file_and_the_rest_lands(
    command: Command, tmp_path: Path
) -> None:
    file, dead = tmp_path / "events.ndjson", tmp_path / "dead.ndjson"
    file.write_bytes(
        lines(EVENT)
        + b"not json\n"
        + lines(EVENT | {"type": "action.unknown"}, EVENT | {"trigger": "other"}, EVENT | {"id": 3})
    )
    result = command("ingest", "events", str(file), "--dead-letter", str(dead), code=1)
    assert result.stderr.endswith("read 5, written 2, unchanged 0, refused 3\n")
    records = [orjson.loads(line) for line in dead.read_bytes().splitlines()]
    assert [record["line"] for record in records] == [2, 3, 4]
    raw = file.read_bytes()
    for record in records:
        assert raw[record["offset"] :].startswith(record["raw"].encode())
        assert record["reason"]


def test_a_missing_file_does_not_keep_the_others_out(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(lines(EVENT))
    result = command("ingest", "events", str(tmp_path / "none"), str(file), code=1)
    assert "none" in result.stderr
    assert "written 1, unchanged 0, refused 1" in result.stderr


def test_a_report_loads_and_twice_is_once(
    command: Command, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    plain, packed = tmp_path / "report.xml", tmp_path / "other.xml.gz"
    plain.write_text(REPORT)
    packed.write_bytes(gzip.compress(REPORT.encode()))
    first = command("ingest", "junit", str(plain), *RUN, "--started-at=2026-11-01T00:00:00Z")
    assert first.stderr.endswith("read 2, written 2, unchanged 0, refused 0\n")
    state = dump(settings)
    again = command("ingest", "junit", str(packed), *RUN, "--started-at=2026-11-01T00:00:00Z")
    assert again.stderr.endswith("read 2, written 0, unchanged 2, refused 0\n")
    assert dump(settings) == state


def test_a_report_that_cannot_be_read_is_named_and_the_others_land(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "good.xml").write_text(REPORT)
    (tmp_path / "bad.xml").write_text("<testsuite>\n<testcase name='a'>")
    result = command("ingest", "junit", str(tmp_path), *RUN, code=1)
    assert "bad.xml, line 2" in result.stderr
    assert "written 2, unchanged 0, refused 1" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("r.xml", "--repository=acme/widgets"), "--branch, --commit, --pipeline, --job, --run-id"),
        (RUN, "PATH (or --manifest)"),
        ((*RUN, "--manifest=m.csv"), "--branch"),
        (("r.xml", *RUN, "--attempt=0"), "--attempt"),
        (("r.xml", *RUN, "--started-at=2026-11-01T00:00:00"), "--started-at"),
        (("r.xml", *RUN, "--started-at=1999-12-31"), "--started-at is before 2000-01-01"),
        (("r.xml", *RUN, "--started-at=2262-04-11"), "--started-at is more than a day ahead"),
        (("r.xml", *RUN, "--pull-request=some"), "--pull-request"),
        (("r.xml", *RUN, "--job=" + "x" * 8_001), "--job"),
    ],
)
def test_wrong_usage_names_what_is_wrong(
    command: Command, arguments: tuple[str, ...], message: str
) -> None:
    assert message in command("ingest", "junit", *arguments, code=2).stderr


def test_a_failure_has_the_pull_request_of_the_ci_event(
    command: Command, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    event = tmp_path / "event.json"
    pull = {"id": 9, "number": 17, "title": "Mend", "user": {"id": 4, "login": "mona"}}
    event.write_bytes(orjson.dumps({"number": 17, "pull_request": pull}))
    (tmp_path / "r.xml").write_text(REPORT)
    command("ingest", "junit", str(tmp_path / "r.xml"), *RUN, f"--pull-request={event}")
    connection = sqlite3.connect(Path(settings["MERGEWATCH_DATA_DIR"]) / "mergewatch.db")
    stored = connection.execute(
        "SELECT first_failure_pull FROM tests ORDER BY test_name"
    ).fetchall()
    connection.close()
    assert stored[0] == (None,)
    assert orjson.loads(stored[1][0])["user_login"] == "mona"


def test_a_blank_option_states_nothing_about_the_tests(
    command: Command, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    (tmp_path / "r.xml").write_text(REPORT)
    blank = ("--framework=", "--framework-version= ", "--language=")
    command("ingest", "junit", str(tmp_path / "r.xml"), *RUN, *blank)
    connection = sqlite3.connect(Path(settings["MERGEWATCH_DATA_DIR"]) / "mergewatch.db")
    stored = connection.execute("SELECT framework, framework_version, language FROM executions")
    assert {*stored.fetchall()} == {(None, None, None)}
    connection.close()


REPORTS = [
    "ingest",
    "junit",
    "--repository=lammps/regression",
    f"--manifest={ROOT / 'examples' / 'lammps-regression' / 'manifest.csv'}",
]
EVENTS = ["ingest", "events", "many.ndjson"]
QUARANTINING = [
    "repository",
    "set",
    "lammps/regression",
    "--default-branch=preview",
    "--auto-quarantine=on",
]


# The last kill of the reports is after all writes, when some tests have been refreshed.
@pytest.mark.parametrize(
    ("arguments", "kills"), [(EVENTS, (1, 3, 6)), (REPORTS, (1, 6, 12))], ids=["events", "junit"]
)
def test_a_killed_load_that_is_run_again_ends_as_a_clean_one(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Mapping[str, str],
    arguments: list[str],
    kills: tuple[int, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("many.ndjson").write_bytes(lines(*(EVENT | {"id": number} for number in range(5_500))))
    command(*QUARANTINING)
    command(*arguments)
    expected = dump(settings)
    for number, writes in enumerate(kills):
        folder = {"MERGEWATCH_DATA_DIR": str(tmp_path / f"killed{number}")}
        monkeypatch.setenv("MERGEWATCH_DATA_DIR", folder["MERGEWATCH_DATA_DIR"])
        command(*QUARANTINING)
        environment = {**os.environ, **folder}
        die = partial(die_after, writes)
        killed = ForkedCommand(*arguments, environment=environment, before=die).wait()
        assert killed.returncode == -signal.SIGKILL
        assert dump(folder) != expected
        run_forked(*arguments, environment=environment)
        assert dump(folder) == expected
