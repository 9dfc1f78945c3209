"""Flaky verdicts that last for several days, so that each counts on one day only. Pure.

A flaky verdict counts on the day of its first execution. If retention removes the executions of
that day, the day is final, and the verdict seems to begin with those that are left. So its commit
and its day are kept while executions of it are left. A verdict of one day needs no such record:
retention removes all of it, or leaves its day the first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from indexing.health.rollups import FAILED, DailyRollup, Job, KeptVerdict
from indexing.health.window import day_number

_VERSION: Final = 1


class LastingVerdict(NamedTuple):
    """A flaky verdict with executions on several days.

    `day` is the one on which it counts. `again` is the later day on which daily roll-ups count it
    again, by the executions that are left; None if they do not.
    """

    commit: str
    day: int
    again: int | None = None


def update_lasting(
    before: Iterable[LastingVerdict],
    verdicts: Mapping[str, KeptVerdict],
    final_day: int,
    *,
    is_whole: bool,
) -> tuple[LastingVerdict, ...]:
    """Return the lasting verdicts of one sequence after a merge, sorted by commit.

    With `is_whole`, `verdicts` are all verdicts of the sequence, by commit; else the flaky ones of
    the merged commits. Days up to `final_day` are final.
    """
    known = {lasting.commit: lasting for lasting in before}
    after = {} if is_whole else dict(known)
    for commit, verdict in verdicts.items():
        if verdict.results > FAILED or commit in known:
            lasting = _update(known.get(commit), verdict, final_day)
            if lasting is not None:
                after[commit] = lasting
            else:
                after.pop(commit, None)
    return tuple([after[commit] for commit in sorted(after)])


def count_once(
    days: Sequence[DailyRollup], lasting: Iterable[LastingVerdict]
) -> Sequence[DailyRollup]:
    """Return the days of one sequence without the flaky verdicts that count on an earlier day."""
    again = Counter(each.again for each in lasting if each.again is not None)
    if not again:
        return days
    return [
        day._replace(flaky_verdicts=day.flaky_verdicts - again[day.day])
        if day.day in again
        else day
        for day in days
    ]


def write_lasting(lasting: Mapping[Job, Sequence[LastingVerdict]]) -> bytes:
    """Return the lasting verdicts of a test as text; equal ones give equal text."""
    return orjson.dumps(
        [
            _VERSION,
            [[*job, [tuple(each) for each in of_job]] for job, of_job in sorted(lasting.items())],
        ]
    )


def read_lasting(text: bytes) -> dict[Job, tuple[LastingVerdict, ...]]:
    """Parse the text from `write_lasting`.

    Raises:
        ValueError: the text is of another version.
    """
    version, jobs = orjson.loads(text)
    if version != _VERSION:
        raise ValueError(version)
    return {
        (pipeline, job): tuple([LastingVerdict(*each) for each in of_job])
        for pipeline, job, of_job in jobs
    }


def _update(
    before: LastingVerdict | None, verdict: KeptVerdict, final_day: int
) -> LastingVerdict | None:
    is_flaky = verdict.results > FAILED
    if before is not None and before.day <= final_day:
        is_counted_again = is_flaky and verdict.day > before.day
        return before._replace(again=verdict.day if is_counted_again else None)
    is_lasting = is_flaky and day_number(verdict.last_at) > verdict.day > final_day
    return LastingVerdict(verdict.commit, verdict.day) if is_lasting else None
