"""`mergewatch` as a process of its own that need not import anything.

It is forked from a process that has imported all modules, which takes most of the CPU time of a
short command. Tests about the start of a process, its input or its terminal start an interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from service.cli import main
from tests.service.processes import TIMEOUT

_OUTPUTS: Final = ("output", "errors")
# A command that loads many files takes long on a busy machine.
_LONGEST_SECONDS: Final = 3 * TIMEOUT

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        __name__,
        "indexing.store.elasticsearch.store",
        "indexing.store.sqlite.store",
        *(f"service.cli.{name}" for name in ("index", "ingest", "junit", "keys", "quarantine")),
    ]
)


class ForkedCommand:
    """A running command, with nothing in its environment but `environment`.

    `before` is called in its process, which has to be able to import it.
    """

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        before: Callable[[], None] | None = None,
    ) -> None:
        # `--quick` refuses processes by this event, which `multiprocessing` does not raise.
        sys.audit("subprocess.Popen", "mergewatch", arguments, None, None)
        self._arguments = arguments
        self._folder = tempfile.TemporaryDirectory()
        # A process that is killed at once does not create them.
        for name in _OUTPUTS:
            Path(self._folder.name, name).touch()
        self._process = _context.Process(
            target=_run, args=(arguments, dict(environment), before, self._folder.name)
        )
        self._process.start()

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end, but no longer than this; return whether it has ended."""
        self._process.join(seconds)
        return self._process.exitcode is not None

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        self._process.kill()

    def wait(self, timeout: float = _LONGEST_SECONDS) -> subprocess.CompletedProcess[str]:
        """Wait for the end; the exit status is negative if a signal ended the process.

        Raises:
            TimeoutError: it did not end, and was killed.
        """
        has_ended = self.ends_within(timeout)
        if not has_ended:
            self.kill()
            self._process.join()
        status = self._process.exitcode
        assert status is not None
        output, errors = (Path(self._folder.name, name).read_text() for name in _OUTPUTS)
        self._process.close()
        self._folder.cleanup()
        if not has_ended:
            raise TimeoutError(errors)
        return subprocess.CompletedProcess(self._arguments, status, output, errors)


def run_forked(*arguments: str, environment: Mapping[str, str]) -> str:
    """Run a command to its successful end; return its standard output."""
    done = ForkedCommand(*arguments, environment=environment).wait()
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _run(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    before: Callable[[], None] | None,
    folder: str,
) -> None:
    for number, name in enumerate(_OUTPUTS, start=1):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["mergewatch", *arguments]
    if before is not None:
        before()
    main()
