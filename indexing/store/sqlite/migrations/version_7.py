"""Version 7: the trigger and the outcome of each event, to filter by.

Both are worked out of the events that are stored. Outcomes are 0 to 3: success, failure, pending,
neutral.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

_COLUMNS: Final = """
ALTER TABLE events ADD COLUMN triggered_by TEXT;
ALTER TABLE events ADD COLUMN outcome INTEGER NOT NULL DEFAULT 3;
"""

_OF_CONCLUSION: Final = """
    WHEN 'success' THEN 0 WHEN 'failure' THEN 1 WHEN 'error' THEN 1 WHEN 'cancelled' THEN 1
    WHEN 'timed_out' THEN 1 WHEN 'action_required' THEN 1 WHEN 'pending' THEN 2 ELSE 3 END
"""

_VALUES: Final = f"""
UPDATE events SET
    triggered_by = CASE WHEN length(json_extract(body, '$.trigger')) <= 255
        THEN json_extract(body, '$.trigger') END,
    outcome = CASE
        WHEN type IN ('action.backport', 'action.copy') THEN
            CASE json_extract(body, '$.metadata.conflicts') WHEN 1 THEN 1 WHEN 0 THEN 0 ELSE 3 END
        WHEN type = 'action.post_check' THEN
            CASE json_extract(body, '$.metadata.conclusion') {_OF_CONCLUSION}
        WHEN type = 'action.queue.leave' THEN
            CASE json_extract(body, '$.metadata.merged') WHEN 1 THEN 0 WHEN 0 THEN 1 ELSE 3 END
        WHEN type = 'action.queue.checks_end' THEN
            CASE json_extract(body, '$.metadata.aborted')
                WHEN 1 THEN CASE json_extract(body, '$.metadata.abort_status')
                    WHEN 'DEFINITIVE' THEN 1 WHEN 'REEMBARKED' THEN 2 ELSE 3 END
                WHEN 0 THEN CASE json_extract(
                    body, '$.metadata.speculative_check_pull_request.checks_conclusion'
                ) {_OF_CONCLUSION}
                ELSE 3 END
        WHEN type = 'action.queue.batch_bisection_end' THEN
            CASE json_extract(body, '$.metadata.culprit_found')
                WHEN 1 THEN 0
                WHEN 0 THEN CASE json_extract(body, '$.metadata.max_failure_resolution_reached')
                    WHEN 1 THEN 1 ELSE 3 END
                ELSE 3 END
        WHEN type = 'ci_insights.job_retried' THEN
            CASE json_extract(body, '$.metadata.outcome')
                WHEN 'retried' THEN 0 WHEN 'skipped_quota_exceeded' THEN 1 ELSE 3 END
        WHEN type IN (
            'action.queue.enter', 'action.queue.checks_start', 'action.queue.batch_bisection_start'
        ) THEN 2
        WHEN type = 'action.queue.checks_not_started' THEN 1
        WHEN type IN ('action.queue.change', 'action.queue.checks.change') THEN 3
        WHEN type LIKE 'action.%' THEN 0
        ELSE 3 END;
"""

_INDEXES: Final = """
CREATE INDEX events_by_trigger ON events (repository_id, triggered_by, received_at, id);
CREATE INDEX events_by_outcome ON events (repository_id, outcome, received_at, id);
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _COLUMNS)
    execute_all(connection, _VALUES)
    execute_all(connection, _INDEXES)
