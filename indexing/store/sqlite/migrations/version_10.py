"""Version 10: the metrics of each row of the search, to show, filter and sort by.

They are computed from roll-ups when the file is opened; `meta` stores the last test that is done.
Roll-ups get the time of the newest failure.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from indexing.store.sqlite.migrations.statements import execute_all

# health_status is 0 to 3: healthy, unknown, flaky, broken. Durations and times are in microseconds;
# a missing one is -2^62, so that rows can be sorted by them. latest_verdicts has one letter for
# each verdict. All new columns are null where executions_count is null.
_TABLES: Final = """
ALTER TABLE identities ADD COLUMN health_status INTEGER;
ALTER TABLE identities ADD COLUMN failed_executions_count INTEGER;
ALTER TABLE identities ADD COLUMN failure_ratio REAL;
ALTER TABLE identities ADD COLUMN flakiness_ratio REAL;
ALTER TABLE identities ADD COLUMN mean_duration INTEGER;
ALTER TABLE identities ADD COLUMN last_execution_at INTEGER;
ALTER TABLE identities ADD COLUMN last_failure_at INTEGER;
ALTER TABLE identities ADD COLUMN latest_verdicts TEXT;
CREATE INDEX identities_by_health_status
    ON identities (repository_id, health_status, test_name, pipeline_name, job_name)
    WHERE health_status IS NOT NULL;
-- Most rows are healthy, and their counts change with each load.
CREATE INDEX identities_by_unhealthy_count ON identities
    (repository_id, health_status, executions_count, test_name, pipeline_name, job_name)
    WHERE health_status <> 0;
-- With a condition on the count, each load would change these indexes, as it changes the count.
DROP INDEX identities_by_test_name;
CREATE INDEX identities_by_test_name
    ON identities (repository_id, test_name, pipeline_name, job_name)
    WHERE health_status IS NOT NULL;
DROP INDEX identities_by_pipeline_name;
CREATE INDEX identities_by_pipeline_name
    ON identities (repository_id, pipeline_name, test_name, job_name)
    WHERE health_status IS NOT NULL;
DROP INDEX identities_by_job_name;
CREATE INDEX identities_by_job_name
    ON identities (repository_id, job_name, test_name, pipeline_name)
    WHERE health_status IS NOT NULL;
CREATE INDEX identities_by_failed_executions_count
    ON identities (repository_id, failed_executions_count, test_name, pipeline_name, job_name)
    WHERE failed_executions_count IS NOT NULL;
CREATE INDEX identities_by_failure_ratio
    ON identities (repository_id, failure_ratio, test_name, pipeline_name, job_name)
    WHERE failure_ratio IS NOT NULL;
CREATE INDEX identities_by_flakiness_ratio
    ON identities (repository_id, flakiness_ratio, test_name, pipeline_name, job_name)
    WHERE flakiness_ratio IS NOT NULL;
CREATE INDEX identities_by_mean_duration
    ON identities (repository_id, mean_duration, test_name, pipeline_name, job_name)
    WHERE mean_duration IS NOT NULL;
CREATE INDEX identities_by_last_failure_at
    ON identities (repository_id, last_failure_at, test_name, pipeline_name, job_name)
    WHERE last_failure_at IS NOT NULL;
CREATE INDEX tests_by_filepath ON tests (repository_id, filepath) WHERE filepath IS NOT NULL;

INSERT INTO meta (name, value) VALUES ('metrics_filled_until', CAST('0' AS BLOB));

UPDATE rollups SET state = CAST(
    json_insert(
        json_set(CAST(state AS TEXT), '$[0]', 2),
        '$[#]',
        (SELECT max(e.finished_at) FROM executions e
         WHERE e.identity = rollups.identity AND e.branch = rollups.branch AND e.conclusion = 1)
    ) AS BLOB)
    WHERE json_array_length(CAST(state AS TEXT)) > 1;
UPDATE rollups SET state = CAST('[2]' AS BLOB) WHERE json_array_length(CAST(state AS TEXT)) = 1;
"""


def migrate(connection: sqlite3.Connection) -> None:
    execute_all(connection, _TABLES)
