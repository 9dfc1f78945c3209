"""Several processes on one socket: starts them, replaces those that die, ends them together.

No event loop and no thread runs here, so that forking is safe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from indexing.errors import MergewatchError

# After this many deaths in this many seconds, starting again would not help, unless another worker
# has run for longer than that: then it is the store that new workers have to wait for.
MAX_DEATHS: Final = 5
DEATHS_WINDOW_SECONDS: Final = 30.0
# The pauses between the starts of a replacement that cannot start while another worker runs. One
# that cannot even be forked is tried again after the first of them.
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0

# A worker ends its requests within the ten seconds that orchestrators give. After that it closes
# the store, which waits for writes in progress.
STOP_SECONDS: Final = 25.0

# The main function of a worker; its arguments are the lifeline and the worker's number.
Run: TypeAlias = Callable[[int, int], None]

_log = logging.getLogger(__name__)


class WorkersDieError(MergewatchError):
    """Workers die as fast as they are started."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A worker's number, and when it was started."""

    number: int
    since: float

    def is_settled(self, now: float) -> bool:
        """Whether it has run for longer than a worker that cannot start."""
        return now - self.since > DEATHS_WINDOW_SECONDS


class _Restarts:
    """Decides when dead workers are replaced, and when starting again would not help."""

    def __init__(self) -> None:
        self.next_at = float("-inf")
        self._pause = 0.0
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)

    def note_death(self, dead: _Running, others: Iterable[_Running], now: float) -> None:
        """Plan the next start: at once, or after a pause that grows with each failed replacement.

        Raises:
            WorkersDieError: too many died in a short time, and no other worker is settled.
        """
        if any(each.is_settled(now) for each in others):
            # Workers can start, so ending the settled ones would help nobody.
            self._deaths.clear()
            doubled = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
            self._pause = 0.0 if dead.is_settled(now) else doubled
        else:
            self._deaths.append(now)
            if len(self._deaths) == MAX_DEATHS and now - self._deaths[0] < DEATHS_WINDOW_SECONDS:
                raise WorkersDieError(
                    f"{MAX_DEATHS} workers died within {DEATHS_WINDOW_SECONDS:.0f} seconds; "
                    "the log lines above say why"
                )
            self._pause = 0.0
        self.next_at = now + self._pause


def stop_signals() -> frozenset[signal.Signals]:
    """Return the signals that end the service after it has drained.

    SIGHUP is one of them, unless the process was started with it ignored, as `nohup` does: then
    it has to survive its terminal.
    """
    always = {signal.SIGTERM, signal.SIGINT}
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return frozenset(always if is_ignored else always | {signal.SIGHUP})


def supervise(
    count: int,
    run: Run,
    release: Callable[[], None] = lambda: None,
    on_death: Callable[[int], None] = lambda _: None,
) -> None:
    """Keep `count` processes running until one of `stop_signals`, then end them and return.

    `release` closes this process's copies of their resources before they are told to end.

    Each process calls `run` with a file descriptor that becomes readable when the supervisor ends,
    for whatever reason, and with a number below `count` that no other running process has.
    `on_death` is called with the number of a worker that died, before another one gets it.

    A worker that dies is replaced. While another one runs well, a replacement that cannot start, as
    in an outage of the store, is tried again after a pause.

    Raises:
        WorkersDieError: too many died in a short time, and none has run for longer than that; the
            others are ended first. Or not even one can be forked.
    """
    lifeline, held = os.pipe()
    stopping = stop_signals()
    watched = stopping | {signal.SIGCHLD}
    with _signals_wait(watched):
        # By process id.
        workers: dict[int, _Running] = {}
        restarts = _Restarts()

        def start_missing() -> None:
            for number in sorted(set(range(count)) - {w.number for w in workers.values()}):
                started = _Running(number, time.monotonic())
                try:
                    workers[_fork(run, number, lifeline, held, watched)] = started
                except OSError as error:
                    # The system has no room for a process.
                    if not workers:
                        raise WorkersDieError(f"no worker can be forked: {error}") from error
                    _log.error("worker cannot be forked", extra={"reason": str(error)})
                    restarts.next_at = started.since + FIRST_PAUSE_SECONDS
                    return

        try:
            while True:
                if restarts.next_at <= time.monotonic():
                    start_missing()
                pause = restarts.next_at - time.monotonic()
                if pause <= 0 and len(workers) < count:
                    continue
                if _next_signal(watched, pause) in stopping:
                    return
                for pid, dead, status in _reap(workers):
                    code = os.waitstatus_to_exitcode(status)
                    _log.error("worker died", extra={"pid": pid, "exit_code": code})
                    on_death(dead.number)
                    restarts.note_death(dead, workers.values(), time.monotonic())
        finally:
            os.close(held)
            os.close(lifeline)
            release()
            _end(workers)


@contextlib.contextmanager
def _signals_wait(watched: frozenset[signal.Signals]) -> Iterator[None]:
    """Block signals until `sigwait` takes them, so that none is missed in between."""
    # A process that leaves SIGCHLD at its default is not told of a child's end.
    previous = signal.signal(signal.SIGCHLD, lambda *_: None)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        yield
    finally:
        # A second stop signal, as a closing terminal may send, must not kill the process.
        while signal.sigtimedwait(watched, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, previous)


def _next_signal(watched: frozenset[signal.Signals], pause: float) -> int | None:
    """Wait for a signal and return it; return `None` after a pause, if there is one."""
    if pause <= 0:
        return signal.sigwait(watched)
    taken = signal.sigtimedwait(watched, pause)
    return None if taken is None else taken.si_signo


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
        _log.error("worker cannot start", extra={"reason": str(error)})
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run in the child
        _log.exception("worker failed")
    finally:
        sys.stderr.flush()
        # Not `sys.exit`: the clean-up of the parent must not run in the child.
        os._exit(code)


def _reap(workers: dict[int, _Running]) -> Iterator[tuple[int, _Running, int]]:
    """Take note of all children that have ended; yield those that were workers.

    As process 1 of a container, this process gets the children of workers that died, too.
    """
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid in workers:
                yield pid, workers.pop(pid), status


def _end(workers: dict[int, _Running]) -> None:
    """Tell the workers to finish, and kill those that do not in time."""
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while workers and (left := deadline - time.monotonic()) > 0:
        for pid, _, _ in _reap(workers):
            _log.debug("worker stopped", extra={"pid": pid})
        if workers:
            signal.sigtimedwait({signal.SIGCHLD}, left)
    for pid in workers:
        _log.error("worker did not stop in time, killing it", extra={"pid": pid})
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
