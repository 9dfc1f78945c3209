"""Writes roll-ups and recoveries as JSON and reads them back; equal ones give equal text. Pure."""

from __future__ import annotations

from functools import partial
from typing import Final

import orjson

from indexing.health.recovery import Recovery
from indexing.health.rollups import (
    DailyRollup,
    KeptVerdict,
    Part,
    Rollup,
    SpreadVerdict,
)
from indexing.models.executions import Conclusion

# The version, which is the first value of a text. A text of another version cannot be read, so its
# roll-up is computed from executions again.
_VERSION: Final = 2
_BEGINNING: Final = b"[%d" % _VERSION
# These make a named tuple in a quarter of the time of a call of its class.
_day_of: Final = partial(tuple.__new__, DailyRollup)
_verdict_of: Final = partial(tuple.__new__, KeptVerdict)


def write_rollup(rollup: Rollup | None) -> bytes:
    """Return a roll-up as text; None stands for a roll-up without executions."""
    if rollup is None:
        return orjson.dumps([_VERSION])
    return orjson.dumps(
        [
            _VERSION,
            rollup.newest_at,
            rollup.last_conclusion.value,
            rollup.evidence_at,
            rollup.has_older,
            list(map(tuple, rollup.days)),
            list(map(tuple, rollup.verdicts)),
            [
                (spread.commit, spread.first_day, [tuple(part) for part in spread.parts])
                for spread in rollup.spread
            ],
            rollup.metadata,
            rollup.last_failure_at,
        ]
    )


def is_readable(text: bytes) -> bool:
    """Return whether the text has the version that `read_rollup` can read."""
    return text.startswith(_BEGINNING)


def read_rollup(text: bytes) -> Rollup | None:
    """Parse a text from `write_rollup`; None if there are no executions.

    Raises:
        ValueError: the text is of another version.
    """
    version, *rest = orjson.loads(text)
    if version != _VERSION:
        raise ValueError(version)
    if not rest:
        return None
    newest_at, conclusion, evidence_at, has_older, days, verdicts, spread, metadata, failed = rest
    return Rollup(
        newest_at=newest_at,
        last_conclusion=Conclusion(conclusion),
        evidence_at=evidence_at,
        days=tuple(map(_day_of, days)),
        verdicts=tuple(map(_verdict_of, verdicts)),
        has_older=has_older,
        spread=tuple(
            SpreadVerdict(commit, first_day, tuple(Part(*part) for part in parts))
            for commit, first_day, parts in spread
        ),
        metadata=tuple([None if stated is None else (stated[0], stated[1]) for stated in metadata]),
        last_failure_at=failed,
    )


def write_recovery(recovery: Recovery) -> bytes:
    """Return a recovery as text, which has no version."""
    return orjson.dumps([recovery.has_failed, recovery.has_enough, sorted(recovery.passed)])


def read_recovery(text: bytes) -> Recovery:
    """Parse a text from `write_recovery`."""
    has_failed, has_enough, passed = orjson.loads(text)
    return Recovery(
        has_failed,
        has_enough,
        frozenset((pipeline, job, commit) for pipeline, job, commit in passed),
    )
