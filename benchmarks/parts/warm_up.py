"""Warms up a freshly started Elasticsearch, which compiles the code of frequent requests."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.load.wrk import LoadError
from benchmarks.parts.bench import Bench
from benchmarks.requests.operations import Operation
from benchmarks.stacks import Stack, StoreKind

# A node is warm once requests take hardly less time than in the pass before: their mean ratio.
_STEADY: Final = 0.95
_MOST_PASSES: Final = 10

# The seconds of one request, by the names of stack and operation.
_Times = Mapping[tuple[str, str], float]


def warm_up(bench: Bench, operations: Sequence[Operation], stacks: Sequence[Stack]) -> None:
    """Send the requests that are to be measured until the node answers them at a steady rate.

    Services send several reads in one request, which the node answers by other code than a search,
    so all stacks take part. To find deep pages, thousands are read anyway.
    """
    shallow = [operation for operation in operations if operation.page == 1]
    here = [stack for stack in stacks if stack.store is StoreKind.ELASTICSEARCH]
    if not shallow or not here:
        return
    before: _Times = {}
    for number in range(1, _MOST_PASSES + 1):
        times = _load_all(bench, shallow, here)
        ratio = _ratio(times, before)
        print(f"  warm-up {number}: {ratio:.2f} times as long as before", file=sys.stderr)
        if ratio > _STEADY:
            return
        before = times


def _load_all(bench: Bench, operations: Sequence[Operation], stacks: Sequence[Stack]) -> _Times:
    times = {}
    for operation in operations:
        for stack in stacks:
            if stack.takes_part(operation, repeated=False):
                paths = bench.numbered_paths(stack, operation)
                try:
                    measured = bench.load(bench.servers[stack.name], paths)
                except LoadError:
                    # It is not measured yet, so what is too slow on a cold node does not count.
                    continue
                times[stack.name, operation.name] = 1 / measured.requests_per_second
    return times


def _ratio(times: _Times, before: _Times) -> float:
    """Return the mean ratio of the requests of both passes; 0 without any."""
    both = times.keys() & before.keys()
    return sum(times[each] / before[each] for each in both) / max(1, len(both))
