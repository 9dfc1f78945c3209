"""Profiles a running process with py-spy and sums up the sampled stacks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOOKS_A_SECOND: Final = 200
# How many functions a profile has by their own time; it has twice as many by their total time.
_MOST: Final = 8
_FRAME: Final = re.compile(r"(?P<function>.+) \((?P<file>[^()]*)\)")
_PACKAGES: Final = "site-packages/"
# Where each thread begins but the main one, which answers requests. Those of a pool wait, which
# py-spy takes for work, or do what no request waits for.
_THREAD: Final = re.compile(r"(Thread\.)?_bootstrap \([^()]*threading\.py(:\d+)?\)")


class ProfileError(RuntimeError):
    """The process could not be profiled."""


@dataclass(frozen=True, slots=True)
class Share:
    """One function or module, with its share of the time."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The functions with the most time of their own, and those with the most in total."""

    itself: tuple[Share, ...]
    within: tuple[Share, ...]


def profile(pid: int, seconds: int) -> Profile:
    """Profile a process under load; raise `ProfileError` if the system forbids it."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        raise ProfileError("py-spy is not installed")
    with tempfile.TemporaryDirectory() as folder:
        stacks = Path(folder, "stacks")
        options = f"--duration {seconds} --rate {_LOOKS_A_SECOND} --format raw --full-filenames"
        done = subprocess.run(  # noqa: S603
            [program, "record", "--pid", str(pid), *options.split(), "--output", stacks],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not stacks.exists():
            raise ProfileError(f"py-spy failed: {done.stderr.strip()}")
        return summarise(stacks.read_text().splitlines(), _MOST)


def summarise(folded: Iterable[str], most: int) -> Profile:
    """Sum up stacks, each a line of `outermost;…;innermost count`, of the main thread. Pure."""
    itself: Counter[str] = Counter()
    within: Counter[str] = Counter()
    total = 0
    for line in folded:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if _THREAD.fullmatch(frames[0]):
            continue
        looks = int(count)
        total += looks
        names = [_name_of(frame) for frame in frames]
        itself[names[-1]] += looks
        # Count each name once a stack, even if it recurs.
        for name in set(names):
            within[name] += looks
    return Profile(
        tuple(Share(name, count / total) for name, count in itself.most_common(most)),
        tuple(
            Share(name, count / total)
            for name, count in within.most_common(4 * most)
            # Leave out outer frames that contain nearly everything.
            if count < total * 0.9
        )[: 2 * most],
    )


def _name_of(frame: str) -> str:
    """Format a frame as `function in file`, with the file's path within its package."""
    match = _FRAME.fullmatch(re.sub(r":\d+\)$", ")", frame))
    if match is None:
        return frame
    file = match["file"]
    known = file.rpartition(_PACKAGES)[2] if _PACKAGES in file else _in_project(file)
    return f"{match['function']} in {known}"


def _in_project(file: str) -> str:
    for package in ("service/", "indexing/", "benchmarks/"):
        if f"/{package}" in file:
            return package + file.rpartition(f"/{package}")[2]
    return Path(file).name
