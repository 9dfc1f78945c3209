"""The type of a clock, which a test can set, and the clock of the machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

# Returns the present time, in UTC.
Clock = Callable[[], datetime]

utc_now: Final[Clock] = partial(datetime.now, UTC)
