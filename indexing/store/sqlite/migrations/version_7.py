"""Version 7: the trigger and the outcome of each event, to filter by, and counts of the events.

Both are computed from the stored events. Outcomes are 0 to 3: success, failure, pending, neutral.
The counts are by hour and by day, with times in microseconds. Database triggers update them in the
same transaction as the events.
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
-- Behind the order of the log is what is counted by value, so that rows need not be looked up.
DROP INDEX events_by_type;
DROP INDEX events_by_base_ref;
CREATE INDEX events_by_base_ref ON events (repository_id, base_ref, received_at, id, pull_request)
    WHERE base_ref IS NOT NULL;
CREATE INDEX events_by_type ON events (repository_id, type, received_at, id, pull_request);
CREATE INDEX events_by_trigger
    ON events (repository_id, triggered_by, received_at, id, pull_request);
CREATE INDEX events_by_outcome ON events (repository_id, outcome, received_at, id, pull_request);
"""

_COUNTS: Final = """
-- char(0) is in place of null.
CREATE TABLE event_counts (
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    span INTEGER NOT NULL,
    start INTEGER NOT NULL,
    type TEXT NOT NULL,
    outcome INTEGER NOT NULL,
    triggered_by TEXT NOT NULL,
    base_ref TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (repository_id, span, start, type, outcome, triggered_by, base_ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE event_pull_counts (
    repository_id INTEGER NOT NULL REFERENCES repositories (id),
    start INTEGER NOT NULL,
    pull_request INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (repository_id, start, pull_request)
) STRICT, WITHOUT ROWID;
"""

_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR


def _start(row: str, span: int) -> str:
    """Return SQL for the beginning of the span that contains the event; it may be before 1970."""
    return f"{row}received_at - ({row}received_at % {span} + {span}) % {span}"


def _key(row: str, span: int) -> str:
    return (
        f"{row}repository_id, {span}, {_start(row, span)}, {row}type, {row}outcome,"
        f" ifnull({row}triggered_by, char(0)), ifnull({row}base_ref, char(0))"
    )


def _pull_key(row: str) -> str:
    return f"{row}repository_id, {_start(row, _DAY)}, {row}pull_request"


_COLUMNS_OF_KEY: Final = "repository_id, span, start, type, outcome, triggered_by, base_ref"
_COLUMNS_OF_PULL_KEY: Final = "repository_id, start, pull_request"


def _one_less(table: str, columns: str, key: str) -> str:
    these = f"({columns}) = ({key})"
    return (
        f"UPDATE {table} SET count = count - 1 WHERE {these};"
        f" DELETE FROM {table} WHERE {these} AND count = 0;"
    )


def _keep_counts(connection: sqlite3.Connection) -> None:
    added, dropped = "", ""
    for span in (_HOUR, _DAY):
        connection.execute(
            f"INSERT INTO event_counts SELECT {_key('', span)}, count(*) FROM events"
            " GROUP BY 1, 2, 3, 4, 5, 6, 7"
        )
        added += (
            f"INSERT INTO event_counts VALUES ({_key('new.', span)}, 1)"
            f" ON CONFLICT ({_COLUMNS_OF_KEY}) DO UPDATE SET count = count + 1;"
        )
        dropped += _one_less("event_counts", _COLUMNS_OF_KEY, _key("old.", span))
    connection.execute(
        f"INSERT INTO event_pull_counts SELECT {_pull_key('')}, count(*) FROM events"
        " WHERE pull_request IS NOT NULL GROUP BY 1, 2, 3"
    )
    connection.execute(f"CREATE TRIGGER events_added AFTER INSERT ON events BEGIN {added} END")
    connection.execute(f"CREATE TRIGGER events_dropped AFTER DELETE ON events BEGIN {dropped} END")
    connection.execute(
        "CREATE TRIGGER events_of_pulls_added AFTER INSERT ON events"
        " WHEN new.pull_request IS NOT NULL BEGIN"
        f" INSERT INTO event_pull_counts VALUES ({_pull_key('new.')}, 1)"
        f" ON CONFLICT ({_COLUMNS_OF_PULL_KEY}) DO UPDATE SET count = count + 1; END"
    )
    connection.execute(
        "CREATE TRIGGER events_of_pulls_dropped AFTER DELETE ON events"
        " WHEN old.pull_request IS NOT NULL BEGIN"
        f" {_one_less('event_pull_counts', _COLUMNS_OF_PULL_KEY, _pull_key('old.'))} END"
    )


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _COLUMNS)
    execute_all(connection, _VALUES)
    execute_all(connection, _INDEXES)
    execute_all(connection, _COUNTS)
    _keep_counts(connection)
