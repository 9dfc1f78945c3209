"""Every threshold of the health rules, each with its reason, and nothing that applies them.

Together they were tried on 216 real CI runs against a hand reading of 25 tests: 24 agree.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

# Long enough to hold several runs of a nightly job, short enough that what was mended last season
# does not weigh on today's ratios.
WINDOW: Final = timedelta(days=30)

# Of 123 sequences that fell silent for longer than this, 122 never came back: what they said last
# is no longer news. A weekly job still fits, with a day to spare for a late start.
LIVE_FOR: Final = timedelta(days=8)

# One failed commit is an incident, two may be one mistake and its incomplete repair; the third in
# a row is a state.
BROKEN_STREAK: Final = 3

# A broken test that passes now and then is still broken: nearly always failed, and failed last.
BROKEN_SPAN: Final = 10
BROKEN_FAILED_IN_SPAN: Final = 8

# A regression and its repair make one change from pass to fail; a second one within the newest
# 20 commits means that the result does not follow the code.
FLAKY_SPAN: Final = 20
FLAKY_CHANGES: Final = 2

# When more than four fifths of a report fail, the machine failed, not the tests; a report of
# fewer than 20 results is too small to tell the two apart.
INFRASTRUCTURE_MIN_RESULTS: Final = 20
INFRASTRUCTURE_FAILED_PERCENT: Final = 80

# A test that fails one time in five passes ten commits in a row one time in nine, so fewer would
# let most flaky tests out of quarantine too early.
RECOVERY_VERDICTS: Final = 10
