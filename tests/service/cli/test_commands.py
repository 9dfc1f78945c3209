"""The root of the command line: the commands it lists, the modules it loads, its questions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from service.cli.commands import COMMANDS, main
from service.cli.output import confirm
from tests.service.cli.conftest import Command
from tests.service.cli.report import REPORT, RUN

# A command that only shows its help does not need them, and they take longest to load.
HEAVY = ("aiohttp", "marshmallow", "structlog", "lxml", "rich", "indexing.store", "uvloop")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_by_its_own_first_sentence(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.get_short_help_str(limit=200).removesuffix(".") == COMMANDS[name].removesuffix(
        "."
    )


def test_the_help_of_a_group_lists_each_command_by_a_whole_sentence() -> None:
    cut = []
    for name in COMMANDS:
        group = main.get_command(click.Context(main), name)
        if isinstance(group, click.Group):
            context = click.Context(group, info_name=f"mergewatch {name}", terminal_width=80)
            lines = group.get_help(context).partition("Commands:")[2].splitlines()
            cut += [line for line in lines if line.endswith("...")]
    assert cut == []


def test_an_unknown_command_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="No such command"):
        main.main(["no-such-command"], standalone_mode=False)


@pytest.mark.parametrize(
    "words",
    [
        ("ingest", "events", ""),
        ("ingest", "events", "x", "--dead-letter="),
        ("ingest", "junit", *RUN, ""),
        ("ingest", "junit", "--repository=acme/widgets", "--manifest="),
        ("ci", "junit", *RUN, "report.xml", ""),
        ("index", "backup", ""),
        ("index", "restore", ""),
        ("demo", "--examples="),
    ],
)
def test_an_empty_path_is_not_the_current_folder(
    command: Command, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The text of a variable that is not set.
    tmp_path.joinpath("report.xml").write_text(REPORT)
    monkeypatch.chdir(tmp_path)
    assert "must not be empty" in command(*words, code=2).stderr


def test_showing_the_help_loads_no_command() -> None:
    code = f"""
import sys
from service.cli import main
main(["--help"], standalone_mode=False)
assert not [name for name in {HEAVY!r} if name in sys.modules], sys.modules
"""
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="."
    )
    assert all(name in shown.stdout for name in COMMANDS)


def test_names_beyond_the_encoding_of_the_terminal_are_escaped(
    settings: Mapping[str, str],
) -> None:
    def run(*words: str) -> str:
        program = [sys.executable, "-c", "from service.cli import main; main()", "quarantine"]
        environment = {
            **os.environ,
            **settings,
            "PYTHONIOENCODING": "latin-1",
            "LOGNAME": "a\udcff",
        }
        done = subprocess.run(
            [*program, *words, "--repository", "acme/widgets"], env=environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode("latin-1")

    run("add", "--test", "tést →", "--reason", "flaps")
    assert "tést \\u2192" in run("list")
    # The name of the user was not even UTF-8.
    assert "a\\ufffd (user)" in run("changes")


def test_a_setting_of_elasticsearch_without_its_url_is_warned_of_once(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWATCH_ELASTICSEARCH_PREFIX", "ci")
    assert command("index", "create").stderr == (
        "warning: MERGEWATCH_ELASTICSEARCH_PREFIX has no effect without"
        " MERGEWATCH_ELASTICSEARCH_URL\nthe store is ready\n"
    )


@pytest.mark.parametrize("arguments", [["keys", "list"], ["--help"], ["--version"]])
def test_a_full_disk_behind_standard_output_is_one_line(
    settings: Mapping[str, str], command: Command, arguments: list[str]
) -> None:
    command("index", "create")
    program = [sys.executable, "-c", "from service.cli import main; main()", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            program, env={**os.environ, **settings}, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "Error: writing failed: No space left on device\n")


def test_without_standard_input_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(click.ClickException, match="--yes"):
        confirm("Go on?")
