"""`mergewatch keys`: a key is printed once, with nothing else, and can be revoked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from service.auth.api_keys import is_key
from tests.service.cli.conftest import ON_EVERY_STORE, Command

pytestmark = ON_EVERY_STORE


def create(command: Command, *more: str) -> tuple[str, str]:
    """Create a key; return its id and its text."""
    result = command("keys", "create", "--name", "ci", "--owner", "acme", "--scope", "read", *more)
    return result.stderr.split()[1], result.stdout.strip()


def test_a_new_key_stands_alone_on_standard_output(command: Command) -> None:
    result = command("keys", "create", "--name", "ci", "--owner", "acme", "--scope", "read")
    assert result.stdout.count("\n") == 1
    assert is_key(result.stdout.strip())


def test_the_text_of_a_key_is_never_shown_again(command: Command) -> None:
    key_id, text = create(command, "--repository", "widgets", "--expires", "2099-01-31")
    listed = command("keys", "list").output
    assert text not in listed
    assert text[3:20] not in listed
    row = listed.splitlines()[1].split()
    assert row[:4] == [key_id, "ci", "read", "acme/widgets"]
    assert row[5:] == ["2099-01-31T00:00:00Z", "active"]


def test_a_key_is_revoked_by_its_id(command: Command) -> None:
    key_id, _ = create(command)
    command("keys", "revoke", key_id)
    assert command("keys", "list").output.splitlines()[1].endswith("revoked")
    assert "no such key: nobody" in command("keys", "revoke", "nobody", code=1).stderr


def test_a_key_that_cannot_be_printed_is_not_valid(
    command: Command, settings: Mapping[str, str]
) -> None:
    program = f'"{sys.executable}" -c "from service.cli import main; main()" keys create'
    for standard_output, reason in {">/dev/full": "No space left", ">&-": "is closed"}.items():
        line = f"{program} --name ci --owner acme --scope read {standard_output}"
        done = subprocess.run(
            ["/bin/sh", "-c", line], env={**os.environ, **settings}, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr.count("Error: ")) == (1, 1)
        assert reason in done.stderr
    states = [row.split()[-1] for row in command("keys", "list").output.splitlines()[1:]]
    assert states == ["revoked"]


@pytest.mark.parametrize("more", ["", "--expires 2020-01-01"])
def test_a_key_whose_notes_cannot_be_printed_is_not_valid(
    command: Command, settings: Mapping[str, str], more: str
) -> None:
    program = f'"{sys.executable}" -c "from service.cli import main; main()" keys create'
    line = f"{program} --name ci --owner acme --scope read {more} 2>/dev/full"
    done = subprocess.run(
        ["/bin/sh", "-c", line], env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert command("keys", "list").output.splitlines()[1].endswith("revoked")


def test_an_expired_key_is_listed_as_such(command: Command) -> None:
    create(command, "--expires", "2020-01-01T00:00:00+02:00")
    assert command("keys", "list").output.splitlines()[1].endswith("2019-12-31T22:00:00Z  expired")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--name", "n", "--owner", "ac me", "--scope", "read"), "--owner"),
        (("--name", "n", "--owner", "acme", "--scope", "write"), "--scope"),
        (("--name", "n", "--owner", "acme", "--scope", "read", "--repository", "a/b"), "--repo"),
        (("--name", "n", "--owner", "acme", "--scope", "read", "--expires", "soon"), "--expires"),
        (("--owner", "acme", "--scope", "read"), "--name"),
    ],
)
def test_wrong_usage_names_the_option(
    command: Command, arguments: tuple[str, ...], message: str
) -> None:
    result = command("keys", "create", *arguments, code=2)
    assert message in result.stderr
    assert not result.stdout
