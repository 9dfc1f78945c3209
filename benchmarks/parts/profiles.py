"""Profiles an operation under load when its target does not hold."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from benchmarks.load.wrk import under_load
from benchmarks.parts.bench import Bench, Conditions, started
from benchmarks.requests.operations import BY_NAME
from benchmarks.results import ProfiledSubject, Subject
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.profile import ProfileError, profile
from benchmarks.stacks import STACKS, Stack

_SECONDS = 4
_WARM_UP = 4


def measure_profiles(
    conditions: Conditions, subjects: Iterable[Subject]
) -> tuple[ProfiledSubject, ...]:
    """Profile each subject; skip those that cannot be profiled and say why."""
    found = []
    by_name = {stack.name: stack for stack in STACKS}
    for subject in subjects:
        stack = by_name[subject.stack]
        if not stack.runs_in(conditions.backends):
            continue
        with started(conditions, [stack], divide(available_cores(), 1)) as bench:
            server = bench.servers[stack.name]
            if server.pid is None:
                continue
            # Without a warm-up, a tenth of the time would go to modules and statements of the
            # first requests.
            bench.put(server, _paths_of(bench, stack, subject), _WARM_UP)
            paths = _paths_of(bench, stack, subject)
            with under_load(server.address, paths, conditions.key, cores=bench.cores.client):
                try:
                    found.append(ProfiledSubject(subject, profile(server.pid, _SECONDS)))
                except ProfileError as error:
                    print(f"  no profile: {error}", file=sys.stderr)
    return tuple(found)


def _paths_of(bench: Bench, stack: Stack, subject: Subject) -> list[str]:
    operation = BY_NAME[subject.operation]
    if subject.repeated:
        return [bench.repeated_path(stack, operation)]
    return bench.numbered_paths(stack, operation)
