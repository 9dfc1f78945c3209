"""Merges executions into the roll-up of one sequence, day by day. Pure.

A full computation is the same merge, starting with an empty roll-up, so both give equal results.
The merge of new executions is either exact or raises `InexactMergeError`; then the roll-up has to
be computed from all executions. It is exact for executions on the newest day or later, unless they
belong to a verdict that is no longer kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from indexing.health.clean_days import count_clean_day
from indexing.health.observations import Observation
from indexing.health.open_days import OpenDay
from indexing.health.rollups import (
    ATTENTION,
    FAILED,
    PASSED,
    DailyRollup,
    KeptVerdict,
    Merged,
    Part,
    Rollup,
    SpreadVerdict,
    day_of_sequence,
    with_spread,
)
from indexing.health.sequences import KEPT_VERDICTS, DayOfSequence, SequenceState
from indexing.health.spreading import drop_before, spread_over
from indexing.health.stated_metadata import StatedMetadata
from indexing.health.status import is_surely_healthy, judge_sequence
from indexing.health.thresholds import WINDOW
from indexing.health.window import LIVE_MICROSECONDS
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus
from indexing.timestamps import DAY_MICROSECONDS

# Whether a verdict stood alone depends on the one before it, and that on the one before that.
_KEPT_BEFORE: Final = 2
_WINDOW_DAYS: Final = WINDOW.days
_PASSED: Final = Conclusion.PASSED
_FAILED: Final = Conclusion.FAILED
_UNKNOWN: Final = HealthStatus.UNKNOWN.value
_Key = tuple[int, str]


class InexactMergeError(Exception):
    """The merge needs older executions, which the roll-up contains only as sums."""


def build_rollup(observations: Iterable[Observation]) -> Merged:
    """Return the roll-up of all executions of one sequence, and all of its days and verdicts."""
    merge = RollupMerge(None, lambda _: False)
    merge.add(observations)
    return merge.finish()


def merge_rollup(
    rollup: Rollup, observations: Iterable[Observation], has_earlier: Callable[[str], bool]
) -> Merged:
    """Return the roll-up with new executions, the days that changed, and merged flaky verdicts.

    `has_earlier` returns whether a commit has stored executions of this sequence besides the new
    ones. It is called only for commits that the roll-up does not know.

    Raises:
        InexactMergeError: the roll-up has to be computed from all executions.
    """
    merge = RollupMerge(rollup, has_earlier)
    merge.add(observations)
    return merge.finish()


class RollupMerge:
    """A roll-up that is being changed, beginning with `rollup` or with nothing."""

    def __init__(self, rollup: Rollup | None, has_earlier: Callable[[str], bool]) -> None:
        self._has_earlier = has_earlier
        self._newest: tuple[int, int, Conclusion] | None = None
        self._evidence_at: int | None = None
        self._last_failure_at: int | None = None
        self._days: dict[int, DailyRollup] = {}
        # The days that have changed: those that are being changed, and others.
        self._open: dict[int, OpenDay] = {}
        self._added: set[int] = set()
        # A cache of the verdicts of days; a day that changes is removed from it.
        self._counted: dict[int, DayOfSequence] = {}
        # The days with a verdict that failed, was flaky or stood alone; it may contain more days.
        self._bad: set[int] = set()
        self._verdicts: dict[str, KeptVerdict] = {}
        # The commits of flaky verdicts that were merged.
        self._flaky: set[str] = set()
        self._is_whole = rollup is None
        # The sorted keys of all known verdicts, and of those that are not flaky.
        self._order: list[_Key] = []
        self._clean: list[_Key] = []
        self._unsettled: set[_Key] = set()
        self._spread: dict[str, SpreadVerdict] = {}
        self._metadata = StatedMetadata(None if rollup is None else rollup.metadata)
        self._has_older = False
        self._oldest_kept: _Key | None = None
        # Whether all verdicts that are not flaky are known; flaky ones may be missing.
        self._knows_all_clean = True
        if rollup is not None:
            self._load(rollup)

    def _load(self, rollup: Rollup) -> None:
        conclusion = rollup.last_conclusion
        self._newest = (rollup.newest_at, ATTENTION[conclusion], conclusion)
        self._evidence_at = rollup.evidence_at
        self._last_failure_at = rollup.last_failure_at
        self._days = {day.day: day for day in rollup.days}
        self._bad = {
            d.day for d in rollup.days if d.failed_verdicts or d.flaky_verdicts or d.stood_alone
        }
        self._verdicts = {verdict.commit: verdict for verdict in rollup.verdicts}
        self._order = [verdict.key for verdict in rollup.verdicts]
        self._clean = [v.key for v in rollup.verdicts if v.results <= FAILED]
        self._spread = {verdict.commit: verdict for verdict in rollup.spread}
        self._has_older = rollup.has_older
        if rollup.has_older:
            self._oldest_kept = self._order[-KEPT_VERDICTS:][0]
            self._knows_all_clean = len(self._order) < KEPT_VERDICTS + _KEPT_BEFORE

    def add(self, observations: Iterable[Observation]) -> None:
        """Merge executions, in any order.

        Raises:
            InexactMergeError: one is older than the newest day, or its verdict is not kept.
        """
        days: dict[int, list[Observation]] = {}
        for seen in observations:
            days.setdefault(seen.at // DAY_MICROSECONDS, []).append(seen)
        newest = None if self._newest is None else self._newest[0] // DAY_MICROSECONDS
        for day in sorted(days):
            if newest is not None and day < newest:
                raise InexactMergeError
            if day == newest or not self._add_clean_day(day, days[day]):
                self._add_day(day, days[day])
            newest = day

    def finish(self) -> Merged:
        return Merged(
            self.roll_up(),
            [self._days[day] for day in sorted(self._open.keys() | self._added)],
            self._verdicts if self._is_whole else {c: self._verdicts[c] for c in self._flaky},
        )

    def roll_up(self) -> Rollup | None:
        """Return the roll-up; None if there is no execution."""
        if self._newest is None:
            return None
        self._days |= {day: rolled.close() for day, rolled in self._open.items()}
        newest_at, _, last_conclusion = self._newest
        start = newest_at // DAY_MICROSECONDS - _WINDOW_DAYS + 1
        kept = self._order[-KEPT_VERDICTS:]
        if kept:
            before = self._clean[: bisect_left(self._clean, kept[0])][-_KEPT_BEFORE:]
            if len(before) < _KEPT_BEFORE and not self._knows_all_clean:
                raise InexactMergeError
            kept = before + kept
        return Rollup(
            newest_at=newest_at,
            last_conclusion=last_conclusion,
            evidence_at=self._evidence_at,
            days=tuple(self._days[day] for day in sorted(self._days) if day >= start),
            verdicts=tuple(self._verdicts[commit] for _, commit in kept),
            has_older=self._has_older or len(kept) < len(self._order),
            spread=tuple(self._spread[commit] for commit in sorted(self._spread)),
            metadata=self._metadata.newest(),
            last_failure_at=self._last_failure_at,
        )

    def _add_clean_day(self, day: int, executions: Sequence[Observation]) -> bool:
        """Add a new day on which all passed, after a verdict that passed; return False for others.

        It changes nothing before it, so this is the same as `_add_day`, in a fifth of the time.

        Raises:
            InexactMergeError: a verdict is not kept.
        """
        clean = self._clean
        if self._spread or (clean and self._verdicts[clean[-1][1]].results != PASSED):
            return False
        counted = count_clean_day(day, executions, self._verdicts)
        if counted is None:
            return False
        rolled, verdicts = counted
        for verdict in verdicts:
            commit = verdict.commit
            if self._has_older and self._has_earlier(commit):
                raise InexactMergeError
            key = (verdict.first_at, commit)
            self._verdicts[commit] = verdict
            self._order.append(key)
            clean.append(key)
        self._days[day] = rolled
        self._added.add(day)
        self._newest = (rolled.last_at, ATTENTION[_PASSED], _PASSED)
        self._evidence_at = rolled.last_at
        for seen in executions:
            self._metadata.note(seen.at, seen.metadata)
        if self._bad:
            self._days[day] = rolled._replace(health=self._judge(day))
        return True

    def _add_day(self, day: int, executions: Sequence[Observation]) -> None:
        if self._spread:
            self._spread = drop_before(self._spread, day - _WINDOW_DAYS + 1)
        rolled = self._open_day(day, self._days.get(day) or DailyRollup(day))
        results: dict[str, tuple[int, int, int]] = {}
        for seen in executions:
            at = seen.at
            self._note(at, seen)
            bit = rolled.count_execution(seen)
            if not bit:
                continue
            known = results.get(seen.commit)
            if known is None:
                results[seen.commit] = (at, at, bit)
            else:
                first, last, bits = known
                results[seen.commit] = (min(first, at), max(last, at), bits | bit)
        for commit, (first, last, bits) in results.items():
            self._merge_verdict(day, commit, first, last, bits)
            if self._evidence_at is None or last > self._evidence_at:
                self._evidence_at = last
        if self._unsettled:
            self._settle()
        rolled.health = self._judge(day)

    def _note(self, at: int, seen: Observation) -> None:
        """Update the values that the newest execution determines."""
        newest = self._newest
        if newest is None or at >= newest[0]:
            attention = ATTENTION[seen.conclusion]
            if newest is None or (at, attention) > newest[:2]:
                self._newest = (at, attention, seen.conclusion)
        if seen.conclusion is _FAILED:
            last = self._last_failure_at
            self._last_failure_at = at if last is None else max(last, at)
        self._metadata.note(at, seen.metadata)

    def _open_day(self, day: int, rolled: DailyRollup | None) -> OpenDay:
        """Return a day in a form that can be changed.

        Raises:
            InexactMergeError: the day is unknown, because it is before the window.
        """
        self._counted.pop(day, None)
        opened = self._open.get(day)
        if opened is None:
            if rolled is None:
                raise InexactMergeError
            opened = self._open[day] = OpenDay(rolled)
        return opened

    def _count_verdict(self, verdict: KeptVerdict, by: int) -> None:
        day = verdict.first_at // DAY_MICROSECONDS
        opened = self._open_day(day, self._days.get(day))
        opened.count_verdict(verdict.results, by)
        if verdict.stood_alone:
            opened.stood_alone += by
        if verdict.results >= FAILED:
            self._bad.add(day)

    def _merge_verdict(self, day: int, commit: str, first: int, last: int, bits: int) -> None:
        before = self._verdicts.get(commit)
        if (bits if before is None else before.results | bits) > FAILED:
            self._flaky.add(commit)
        if before is None:
            if self._is_before_kept((first, commit)) or (
                self._has_older and self._has_earlier(commit)
            ):
                raise InexactMergeError
            self._insert(KeptVerdict(first, last, commit, bits, stood_alone=False))
            return
        spread = spread_over(self._spread.get(commit), before, Part(day, first, bits), last)
        if spread is not None:
            self._spread[commit] = spread
        after = before._replace(
            first_at=min(before.first_at, first),
            last_at=max(before.last_at, last),
            results=before.results | bits,
        )
        if (after.key, after.results) == (before.key, before.results):
            self._verdicts[commit] = after
            return
        if after.key != before.key and self._is_before_kept(after.key):
            raise InexactMergeError
        self._remove(before)
        self._insert(after)

    def _is_before_kept(self, key: _Key) -> bool:
        """Return whether verdicts that are not kept may come after this key."""
        return self._oldest_kept is not None and key < self._oldest_kept

    def _insert(self, verdict: KeptVerdict) -> None:
        key = verdict.key
        if not self._order or self._order[-1] < key:
            self._order.append(key)
        else:
            insort(self._order, key)
        is_flaky = verdict.results > FAILED
        if verdict.stood_alone is not is_flaky:
            verdict = verdict._replace(stood_alone=is_flaky)
        self._verdicts[verdict.commit] = verdict
        self._count_verdict(verdict, 1)
        if is_flaky:
            return
        clean = self._clean
        if clean and clean[-1] < key:
            newest = clean[-1]
            clean.append(key)
            # If both results agree, neither stands alone: one is the newest, and the other one
            # agrees with its neighbour.
            if self._verdicts[newest[1]].results != verdict.results:
                self._unsettled.update((newest, key))
            return
        place = bisect_left(clean, key)
        self._unsettle_around(place)
        clean.insert(place, key)
        self._unsettled.add(key)

    def _remove(self, verdict: KeptVerdict) -> None:
        del self._order[bisect_left(self._order, verdict.key)]
        del self._verdicts[verdict.commit]
        self._count_verdict(verdict, -1)
        if verdict.results <= FAILED:
            place = bisect_left(self._clean, verdict.key)
            del self._clean[place]
            self._unsettle_around(place)

    def _unsettle_around(self, place: int) -> None:
        """Mark the neighbours of an inserted or removed verdict to be checked again."""
        self._unsettled.update(self._clean[max(place - 1, 0) : place + 1])

    def _settle(self) -> None:
        """Check again which verdicts stood alone, for those where that may have changed."""
        clean = self._clean
        for key in self._unsettled:
            place = bisect_left(clean, key)
            if place == len(clean) or clean[place] != key:
                continue
            if place == 0 and not self._knows_all_clean:
                raise InexactMergeError
            verdict = self._verdicts[key[1]]
            alone = False
            if 0 < place < len(clean) - 1:
                earlier = self._verdicts[clean[place - 1][1]].results
                later = self._verdicts[clean[place + 1][1]].results
                alone = earlier == later and earlier != verdict.results
            if alone is not verdict.stood_alone:
                self._verdicts[key[1]] = verdict._replace(stood_alone=alone)
                day = verdict.day
                opened = self._open_day(day, self._days.get(day))
                opened.stood_alone += 1 if alone else -1
                self._bad.add(day)
        self._unsettled.clear()

    def _judge(self, day: int) -> str:
        """Return the health of the sequence at the end of its newest day."""
        newest, evidence = self._newest, self._evidence_at
        if newest is None or evidence is None or newest[0] - evidence > LIVE_MICROSECONDS:
            return _UNKNOWN
        start = day - _WINDOW_DAYS + 1
        self._bad = {bad for bad in self._bad if bad >= start}
        if not self._spread:
            bad = (self._open.get(each) or self._days[each] for each in self._bad)
            newest_failed = self._verdicts[self._order[-1][1]].results == FAILED
            if is_surely_healthy(bad, newest_failed=newest_failed):
                return HealthStatus.HEALTHY.value
        state = self._sequence_since(start)
        if state is None:
            return _UNKNOWN
        return judge_sequence(state, flaky_detection=True).value

    def _sequence_since(self, start: int) -> SequenceState | None:
        """Return the same as `Rollup.sequence_since`, including days that are being changed."""
        days: list[DayOfSequence] = []
        # Local names, because this runs for each sequence with a failure in its window.
        opened, known, counted = self._open, self._days, self._counted
        for day in range(start, start + _WINDOW_DAYS):
            of_day = counted.get(day)
            if of_day is None:
                rolled = opened.get(day) or known.get(day)
                if rolled is None:
                    continue
                of_day = counted[day] = day_of_sequence(rolled)
            if of_day[1] or of_day[2] or of_day[3]:
                days.append(of_day)
        since = start * DAY_MICROSECONDS
        keys = [key for key in self._order[-KEPT_VERDICTS:] if key[0] >= since]
        newest = [self._verdicts[commit] for _, commit in keys]
        if any(spread.first_day < start for spread in self._spread.values()):
            return with_spread(days, newest, keys, tuple(self._spread.values()), start)
        return SequenceState(days, newest) if newest else None
