"""`mergewatch quarantine`, `repository` and `index`: the operator's manual commands."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.quarantines import Actor, ActorKind
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Store
from indexing.store.sqlite.store import SqliteStore
from tests.service.cli.conftest import ON_EVERY_STORE, Command

pytestmark = ON_EVERY_STORE

ACME = ("--repository", "acme/widgets")


def add(command: Command, *more: str) -> str:
    result = command("quarantine", "add", *ACME, "--test", "t", "--reason", "flaps", *more)
    assert result.stdout == f"{uuid.UUID(result.stdout.strip())}\n"
    return result.stdout.strip()


def test_a_quarantine_is_added_listed_and_removed(command: Command) -> None:
    quarantine_id = add(command, "--branch", "release/*", "--owner", "mona")
    row = command("quarantine", "list", *ACME).output.splitlines()[1].split()
    assert row[:4] == [quarantine_id, "t", "release/*", "manual"]
    assert row[-2:] == ["mona", "flaps"]
    command("quarantine", "remove", *ACME, quarantine_id)
    assert len(command("quarantine", "list", *ACME).output.splitlines()) == 1
    command("quarantine", "remove", *ACME, quarantine_id, code=1)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--reason", "", "must have 1 to 1,000 characters"),
        ("--reason", "x" * 1_001, "must have 1 to 1,000 characters"),
        ("--owner", "", "must have 1 to 255 characters"),
        ("--branch", "*a" * 17, "must have at most 16 '*'"),
    ],
)
def test_a_quarantine_has_the_limits_of_the_api(
    command: Command, option: str, value: str, words: str
) -> None:
    given = {"--test": "t", "--reason": "flaps", option: value}
    options = (each for pair in given.items() for each in pair)
    result = command("quarantine", "add", *ACME, *options, code=2)
    assert option in result.stderr
    assert words in result.stderr


def test_a_test_that_was_never_seen_is_quarantined_with_a_warning(
    command: Command, tmp_path: Path
) -> None:
    result = command("quarantine", "add", *ACME, "--test", "spelt\x1bwrong", "--reason", "flaps")
    assert result.stdout == f"{uuid.UUID(result.stdout.strip())}\n"
    (warning,) = result.stderr.splitlines()
    assert "acme/widgets has no results of the test spelt\\x1bwrong" in warning
    report = tmp_path / "report.xml"
    report.write_text("<testsuite><testcase name='seen'/></testsuite>")
    run = ("--branch=topic", "--commit=c0", "--pipeline=ci", "--job=unit", "--run-id=1")
    command("ingest", "junit", str(report), *ACME, *run)
    result = command("quarantine", "add", *ACME, "--test", "seen", "--reason", "flaps")
    assert result.stderr == ""


def load(command: Command, folder: Path, *names: str) -> None:
    cases = "".join(f"<testcase name='{name}'/>" for name in names)
    (folder / "report.xml").write_text(f"<testsuite>{cases}</testsuite>", encoding="utf-8")
    run = ("--branch=main", "--commit=c0", "--pipeline=ci", "--job=unit", "--run-id=1")
    command("ingest", "junit", str(folder / "report.xml"), *ACME, *run)


def test_all_tests_that_match_are_shown_and_quarantined_after_a_yes(
    command: Command, tmp_path: Path
) -> None:
    load(command, tmp_path, "login.a", "login.b", "other")
    glob = ("quarantine", "add", *ACME, "--test-glob", "login.*", "--reason", "flaps")
    refused = command(*glob, code=1, input=b"n\n")
    assert refused.stdout == ""
    assert refused.stderr.startswith("  login.a\n  login.b\nquarantine 2 tests?")
    assert len(command("quarantine", "list", *ACME).output.splitlines()) == 1
    added = command(*glob, "--yes").stdout.split()
    rows = [line.split() for line in command("quarantine", "list", *ACME).output.splitlines()[1:]]
    assert sorted((row[0], row[1]) for row in rows) == sorted(
        zip(added, ("login.a", "login.b"), strict=True)
    )
    # A test may have several quarantines.
    command("quarantine", "add", *ACME, "--test", "login.b", "--branch", "main", "--reason", "x")
    removal = ("quarantine", "remove", *ACME, "--test-glob", "*.b")
    assert "end 2 quarantines?" in command(*removal, code=1, input=b"\n").stderr
    assert f"removed {added[1]}\n" in command(*removal, input=b"y\n").stderr
    assert command(*removal, code=1).stderr == "Error: no test matches\n"


def test_what_was_done_before_a_failure_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(command, tmp_path, "a", "b", "c")
    for module in ("sqlite.quarantines", "elasticsearch.quarantines"):
        monkeypatch.setattr(f"indexing.store.{module}.MAX_QUARANTINES", 2)
    glob = ("--test-glob", "?", "--yes")
    added = command("quarantine", "add", *ACME, *glob, "--reason", "flaps", code=1).stdout.split()
    rows = [line.split() for line in command("quarantine", "list", *ACME).output.splitlines()[1:]]
    assert [(row[0], row[1]) for row in rows] == list(zip(added, ("a", "b"), strict=True))
    calls = count()

    def fail_the_second_time() -> Actor:
        if next(calls):
            raise StoreUnavailableError("it is down")
        return Actor(ActorKind.USER, "mona")

    monkeypatch.setattr("service.cli.quarantine.find_user", fail_the_second_time)
    lines = command("quarantine", "remove", *ACME, *glob, code=1).stderr.splitlines()
    assert lines[-2:] == [f"removed {added[0]}", "Error: the store is unavailable: it is down"]


def test_quarantines_are_removed_several_at_once_and_named_in_order(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(command, tmp_path, *(f"t{number:02}" for number in range(30)))
    glob = ("--test-glob", "t*", "--yes")
    added = command("quarantine", "add", *ACME, *glob, "--reason", "flaps").stdout.split()
    began: list[uuid.UUID] = []
    under_way = most = 0

    def slowed(remove: Callable[..., Awaitable[bool]]) -> Callable[..., Awaitable[bool]]:
        async def remove_slowly(store: Store, name: object, each: uuid.UUID, *rest: object) -> bool:
            nonlocal under_way, most
            began.append(each)
            number = len(began)
            under_way += 1
            most = max(most, under_way)
            # The later it began, the sooner it ends.
            await asyncio.sleep(0.05 / number)
            under_way -= 1
            if number == 12:
                raise StoreUnavailableError("it is down")
            return await remove(store, name, each, *rest)

        return remove_slowly

    with monkeypatch.context() as patched:
        for kind in (SqliteStore, ElasticsearchStore):
            patched.setattr(kind, "remove_quarantine", slowed(kind.remove_quarantine))
        lines = command("quarantine", "remove", *ACME, *glob, code=1).stderr.splitlines()
    assert most == 10
    assert len(began) < 30
    told = [line.removeprefix("removed ") for line in lines if line.startswith("removed ")]
    assert told == [str(each) for each in began if each != began[11]]
    assert lines[-1] == "Error: the store is unavailable: it is down"
    left = {line.split()[0] for line in command("quarantine", "list", *ACME).output.splitlines()}
    assert left - {"ID"} == set(added) - set(told)


@pytest.mark.parametrize(
    "words",
    [
        ("add", *ACME, "--reason", "x"),
        ("add", *ACME, "--reason", "x", "--test", "a", "--test-glob", "a"),
        ("add", *ACME, "--reason", "x", "--test-glob", ""),
        ("add", *ACME, "--reason", "x", "--test-glob", "*" * 17),
        ("remove", *ACME),
        ("remove", *ACME, "00000000-0000-4000-8000-000000000000", "--test-glob", "a"),
    ],
)
def test_one_test_or_a_glob_is_required(command: Command, words: tuple[str, ...]) -> None:
    command("quarantine", *words, code=2)


def test_changes_are_listed_with_the_user_who_made_them(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "mo\x1bna")
    quarantine_id = add(command)
    command("quarantine", "remove", *ACME, quarantine_id)
    rows = [line.split() for line in command("quarantine", "changes", *ACME).output.splitlines()]
    assert [row[1:5] for row in rows[1:]] == [
        ["removed", "t", "(all)", "mo\\x1bna"],
        ["added", "t", "(all)", "mo\\x1bna"],
    ]
    assert len(command("quarantine", "changes", *ACME, "--limit", "1").output.splitlines()) == 2


def test_the_same_test_and_branch_again_prints_the_same_id(command: Command) -> None:
    assert add(command) == add(command) != add(command, "--branch", "main")


def test_names_of_strangers_cannot_steer_a_terminal(command: Command) -> None:
    command("quarantine", "add", *ACME, "--test", "\x1b[31mred\u202e", "--reason", "a\nb")
    listed = command("quarantine", "list", *ACME).output
    assert "\\x1b[31mred\\u202e" in listed
    assert "a\\nb" in listed


def test_the_list_of_an_unknown_repository_is_an_error(command: Command) -> None:
    command("index", "create")
    assert "not known" in command("quarantine", "list", *ACME, code=1).stderr
    assert "not known" in command("repository", "show", "acme/widgets", code=1).stderr


def test_repositories_are_listed(command: Command) -> None:
    command("index", "create")
    assert len(command("repository", "list").stdout.splitlines()) == 1
    command("repository", "set", "acme/widgets", "--default-branch", "develop")
    command("repository", "set", "Acme/gadgets", "--flaky-detection", "off")
    lines = command("repository", "list").stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["Acme/gadgets", "main", "off", "off"],
        ["acme/widgets", "develop", "on", "off"],
    ]


def test_settings_of_a_repository_change_one_by_one(command: Command) -> None:
    command("repository", "set", "Acme/Widgets", "--default-branch", "develop")
    shown = command("repository", "set", "acme/widgets", "--flaky-detection", "off").output
    assert shown == command("repository", "show", "ACME/widgets").output
    assert [re.split(r"\s{2,}", line)[1] for line in shown.splitlines()] == [
        "Acme/Widgets",
        "develop",
        "off",
        "off",
        "off",
        "0 days",
    ]


def test_automatic_quarantine_is_turned_on_configured_and_shown(command: Command) -> None:
    def settings_of(*options: str) -> dict[str, str]:
        lines = command("repository", "set", "acme/widgets", *options).output.splitlines()
        return dict(re.split(r"\s{2,}", line) for line in lines)

    shown = settings_of("--auto-quarantine", "on")
    assert (shown["auto-quarantine"], shown["ignore broken on default branch"]) == ("on", "off")
    assert shown["quarantine after"] == "0 days"
    shown = settings_of("--ignore-broken-on-default-branch", "on", "--quarantine-after", "3")
    assert shown["quarantine after"] == "3 days"
    assert (shown["auto-quarantine"], shown["ignore broken on default branch"]) == ("on", "on")
    for wrong in ("--auto-quarantine=maybe", "--quarantine-after=-1", "--quarantine-after=366"):
        message = command("repository", "set", "acme/widgets", wrong, code=2)
        assert wrong.partition("=")[0] in message.stderr


def test_a_wait_that_outlasts_the_retention_of_results_is_warned_about(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWATCH_RETENTION_DAYS", "30")
    fits = command("repository", "set", "acme/widgets", "--quarantine-after", "29")
    assert fits.stderr == ""
    outlasts = command("repository", "set", "acme/widgets", "--quarantine-after", "30")
    assert "pruned after 30 days" in outlasts.stderr
    assert "30 days" in outlasts.output
    assert "MERGEWATCH_RETENTION_DAYS" in outlasts.stderr


def test_a_broken_test_is_quarantined_by_the_load_that_shows_it(
    command: Command, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    report.write_text("<testsuite><testcase name='t'><failure/></testcase></testsuite>")
    command("repository", "set", "acme/widgets", "--auto-quarantine=on")
    run = ("--branch=main", "--commit=c0", "--pipeline=ci", "--job=unit", "--run-id=1")
    command("ingest", "junit", str(report), *ACME, *run)
    row = command("quarantine", "list", *ACME).output.splitlines()[1].split()
    assert row[1:4] == ["t", "(all)", "auto"]
    assert add(command) == row[0]
    assert command("quarantine", "list", *ACME).output.splitlines()[1].split()[3] == "manual"


@pytest.mark.parametrize("name", ["acme", "acme/", "a_b/c", "acme/w/x"])
def test_a_repository_is_named_with_its_owner(command: Command, name: str) -> None:
    assert "OWNER/REPOSITORY" in command("repository", "show", name, code=2).stderr


def test_the_store_is_made_described_and_pruned(
    command: Command, settings: Mapping[str, str]
) -> None:
    command("index", "create")
    command("index", "create")
    shown = dict(line.rsplit(maxsplit=1) for line in command("index", "status").output.splitlines())
    elasticsearch = "MERGEWATCH_ELASTICSEARCH_URL" in settings
    assert shown["backend"] == ("elasticsearch" if elasticsearch else "sqlite")
    assert shown["events"] == "0"
    assert "dropped 0 events and 0 executions" in command("index", "prune").stderr
    assert "rebuilt 0 tests" in command("index", "rebuild").stderr


def test_wrong_settings_are_a_usage_error_that_names_them_all(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWATCH_PORT", "http")
    monkeypatch.setenv("MERGEWATCH_WORKERS", "0")
    message = command("index", "status", code=2).stderr
    assert "MERGEWATCH_PORT" in message
    assert "MERGEWATCH_WORKERS" in message


def test_a_store_that_cannot_be_used_is_one_line(
    command: Command, settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(settings["MERGEWATCH_DATA_DIR"]).write_text("a file, no folder")
    if "MERGEWATCH_ELASTICSEARCH_URL" in settings:
        # Nothing listens there, and the command must not connect.
        monkeypatch.setenv("MERGEWATCH_ELASTICSEARCH_URL", "http://127.0.0.1:1")
    message = command("index", "status", code=1).stderr
    assert message.startswith("Error: ")
    assert message.count("\n") == 1


def test_a_codeowners_file_is_stored_or_refused_with_its_line(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "CODEOWNERS"
    file.write_text("# ours\n* @all\n", encoding="utf-8")
    stored = command("repository", "set", "acme/widgets", "--codeowners", str(file))
    assert "stored 1 rule of code owners" in stored.stderr
    for text, said in (
        (b"a " + b"@x" * 200, "line 1: an owner must have at most 255 characters"),
        (b"a\xff", "is not UTF-8"),
        (b"#" * 3_000_001, "has more than 3,000,000 bytes"),
        (b"a\0", "NUL"),
    ):
        file.write_bytes(text)
        result = command("repository", "set", "acme/widgets", "--codeowners", str(file), code=2)
        assert said in result.stderr
