"""Several processes on one socket: starts them, replaces those that die, ends them together.

No event loop and no thread runs here, so that forking is safe.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import structlog

from indexing.errors import MergewatchError

# So many deaths in so many seconds are no accident: starting again would not help.
MAX_DEATHS: Final = 5
DEATHS_WINDOW_SECONDS: Final = 30.0

# A worker gives its requests 9 seconds to finish, and those that were cancelled 7 more.
STOP_SECONDS: Final = 25.0

# What a process does until it is told to end, by its lifeline and its number.
Run: TypeAlias = Callable[[int, int], None]

_log = structlog.get_logger(__name__)


class WorkersDieError(MergewatchError):
    """Workers die as fast as they are started."""


def stop_signals() -> frozenset[signal.Signals]:
    """The signals that end the service after it has drained.

    SIGHUP is one of them, unless the process was started with it ignored, as `nohup` does: then
    it is to survive its terminal.
    """
    always = {signal.SIGTERM, signal.SIGINT}
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return frozenset(always if is_ignored else always | {signal.SIGHUP})


def supervise(
    count: int,
    run: Run,
    release: Callable[[], None] = lambda: None,
    mourn: Callable[[int], None] = lambda _: None,
) -> None:
    """Keep `count` processes running until one of `stop_signals`, then end them and return.

    `release` gives up what this process holds of theirs, before they are told to end.

    Each of them calls `run` with a file descriptor that becomes readable when the supervisor is
    gone, however it went, and with a number below `count` that no other one has at the time.
    `mourn` is called with the number of one that died, before another gets it.

    Raises:
        WorkersDieError: too many died in a short time; the others are ended first.
    """
    lifeline, held = os.pipe()
    stopping = stop_signals()
    watched = stopping | {signal.SIGCHLD}
    with _signals_wait(watched):
        # The number of each process, by its process id.
        workers: dict[int, int] = {}
        deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        try:
            while True:
                for number in sorted(set(range(count)) - set(workers.values())):
                    workers[_fork(run, number, lifeline, held, watched)] = number
                if signal.sigwait(watched) in stopping:
                    return
                for pid, number, status in _reap(workers):
                    code = os.waitstatus_to_exitcode(status)
                    _log.error("worker died", pid=pid, exit_code=code)
                    mourn(number)
                    deaths.append(time.monotonic())
                if len(deaths) == MAX_DEATHS and deaths[-1] - deaths[0] < DEATHS_WINDOW_SECONDS:
                    raise WorkersDieError(
                        f"{MAX_DEATHS} workers died within {DEATHS_WINDOW_SECONDS:.0f} seconds; "
                        "the log lines above say why"
                    )
        finally:
            os.close(held)
            os.close(lifeline)
            release()
            _end(workers)


@contextlib.contextmanager
def _signals_wait(watched: frozenset[signal.Signals]) -> Iterator[None]:
    """Hold signals back until they are asked for, so that none is missed between two looks."""
    # A child's end is not announced to a process that leaves SIGCHLD at its default.
    previous = signal.signal(signal.SIGCHLD, lambda *_: None)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        yield
    finally:
        # Told to end twice, as by a terminal that closes: the second time must not kill it.
        while signal.sigtimedwait(watched, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, previous)


def _fork(
    run: Run, number: int, lifeline: int, held: int, watched: frozenset[signal.Signals]
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(held)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
        run(lifeline, number)
        code = 0
    except MergewatchError as error:
        _log.error("worker cannot start", reason=str(error))
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run in the child
        _log.exception("worker failed")
    finally:
        sys.stderr.flush()
        # Not `sys.exit`: what the parent would do at its end is not the child's to do.
        os._exit(code)


def _reap(workers: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    for pid in tuple(workers):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            yield pid, workers.pop(pid), status


def _end(workers: dict[int, int]) -> None:
    """Tell the workers to finish, and end those that do not in time."""
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while workers and (left := deadline - time.monotonic()) > 0:
        for pid, _, _ in _reap(workers):
            _log.debug("worker stopped", pid=pid)
        if workers:
            signal.sigtimedwait({signal.SIGCHLD}, left)
    for pid in workers:
        _log.error("worker did not stop in time, killing it", pid=pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
