"""All thresholds of the health rules, each with its reason.

They were tested together on 216 real CI runs, against a manual review of 25 tests: 24 agree.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

# Long enough for several runs of a nightly job, short enough that failures fixed last season do not
# affect today's ratios. It consists of whole UTC days and ends with that of the newest execution.
WINDOW: Final = timedelta(days=30)

# Of 123 sequences that were silent for longer than this, 122 never came back, so their last status
# is out of date. A weekly job still fits, with a day to spare for a late start.
LIVE_FOR: Final = timedelta(days=8)

# One failed commit is an incident; two may be one mistake and its incomplete fix; three in a row
# are a lasting failure.
BROKEN_STREAK: Final = 3

# A test that nearly always fails, and failed last, is broken although it passes now and then.
BROKEN_SPAN: Final = 10
BROKEN_FAILED_IN_SPAN: Final = 8

# A fall is a change from pass to fail. A regression and its fix make one. A second one within the
# newest 20 commits means that the result does not follow the code.
FLAKY_SPAN: Final = 20
FLAKY_FALLS: Final = 2

# A sequence with this many verdicts per active day has its own rule for `flaky`. There, a
# regression that is fixed within hours makes as many changes as a flaky test elsewhere makes in
# weeks. No real history at hand has more than 3.5; `benchmarks/health` simulates denser ones.
DENSE_VERDICTS_A_DAY: Final = 10

# Days on which a result stood alone. One may be an accident, two may be one outage on both sides of
# midnight. In the simulation, 1 to 3 % of healthy tests are called flaky in a quarter; of tests
# that fail once in 100 runs, at 50 runs a day, half are detected within a week.
ALONE_DAYS: Final = 3

# Two such days among the newest 20 verdicts are enough: a test that fails so often need not wait
# for a third one.
NEAR_DAYS: Final = 2
NEAR_SPAN: Final = 20

# A test counts as mended after 5 times as many days without a failure as there were on average from
# one such day to the next. By chance, a flaky test has so long a gap one time in e^5, about 150.
MENDED_GAPS: Final = 5

# When more than four fifths of a report fail, the machine failed, not the tests. With fewer than 20
# results, the two cannot be distinguished.
INFRASTRUCTURE_MIN_RESULTS: Final = 20
INFRASTRUCTURE_FAILED_PERCENT: Final = 80

# Jobs that are named after builds or days would otherwise make the state of a test, which each of
# its loads reads and writes, grow without end. Real tests run in a few dozen.
JUDGED_JOBS: Final = 1_000

# A test that fails one time in five passes ten commits in a row one time in nine. A lower number
# would release most flaky tests from quarantine too early.
RECOVERY_VERDICTS: Final = 10
