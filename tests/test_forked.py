"""Commands that tests run in forked processes."""

from __future__ import annotations

import signal

from tests.forked import ForkedCommand


def test_a_command_that_is_killed_before_it_begins_has_no_output() -> None:
    # It may live until it is killed, so it waits.
    command = ForkedCommand("--version", environment={}, before=signal.pause)
    command.kill()
    ended = command.wait()
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGKILL, "", "")
