"""The migrations of the embedded store, in order: number N leads from version N - 1 to N.

A new file runs all of them, so a migrated file and a new one have the same tables. Never change a
released migration, except for its speed. To add one:

1. On the commit before it, run `python -m tests.samples.store.record`, and commit the sample.
2. Add `version_N.py` with a function `migrate`, and add it to `MIGRATIONS`.

All missing migrations run in one transaction, together with the new version number. So a migration
must not commit, and a kill cannot leave it half done. Foreign keys are off meanwhile, so tables can
be rebuilt; such a migration ends with `statements.check_foreign_keys`. A migration uses plain SQL
and its own constants, because the rest of the package changes later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from indexing.store.sqlite.migrations import (
    version_1,
    version_2,
    version_3,
    version_4,
    version_5,
    version_6,
    version_7,
    version_8,
    version_9,
    version_10,
    version_11,
    version_12,
    version_13,
    version_14,
    version_15,
    version_16,
    version_17,
    version_18,
    version_19,
)

Migration = Callable[[sqlite3.Connection], None]

MIGRATIONS: Final[tuple[Migration, ...]] = (
    version_1.migrate,
    version_2.migrate,
    version_3.migrate,
    version_4.migrate,
    version_5.migrate,
    version_6.migrate,
    version_7.migrate,
    version_8.migrate,
    version_9.migrate,
    version_10.migrate,
    version_11.migrate,
    version_12.migrate,
    version_13.migrate,
    version_14.migrate,
    version_15.migrate,
    version_16.migrate,
    version_17.migrate,
    version_18.migrate,
    version_19.migrate,
)
