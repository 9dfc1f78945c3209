"""Counts the tests of a repository in groups: by pipeline, job or file.

SQLite adds up in the order of its indexes, which takes little memory. The queries return few, large
rows: for each row, a thread waits for the interpreter's lock, which a busy event loop is slow to
release.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from indexing.groups import BADNESS, FindValues, GroupCounts, choose_worst, group_of
from indexing.models.groups import Grouping, TestGroup
from indexing.names import RepositoryName
from indexing.store.sqlite.repositories import find_repository_id

# The tests whose files or names are returned in one row.
_TESTS_AT_ONCE: Final = 1_000

# The worst health of a test in one group, and the sums of its executions.
_OF_TEST: Final = (
    f"max(CASE i.health_status {' '.join(f'WHEN {n} THEN {bad}' for n, bad in BADNESS.items())}"
    " END) AS badness, sum(i.executions_count) AS executions,"
    " sum(i.failed_executions_count) AS failed"
)
_COUNTS: Final = ", ".join(
    f"ifnull(sum({each}), 0)"
    for each in [*(f"badness = {bad}" for bad in sorted(BADNESS.values())), "executions", "failed"]
)

# Each recursion finds the next name with one index look-up.
_BY_NAME: Final = """
WITH RECURSIVE names (name) AS (
    SELECT min({name}) FROM identities INDEXED BY {index}
    WHERE repository_id = ?1 AND health_status IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min({name}) FROM identities INDEXED BY {index}
        WHERE repository_id = ?1 AND health_status IS NOT NULL AND {name} > names.name
    ) FROM names WHERE names.name IS NOT NULL
)
SELECT name, (
    SELECT json_array({counts}) FROM (
        SELECT {of_test} FROM identities i INDEXED BY {index}
        WHERE repository_id = ?1 AND health_status IS NOT NULL AND {name} = names.name
        GROUP BY test_name
    )
) FROM names WHERE name IS NOT NULL
"""

_NAMES: Final = {
    by: _BY_NAME.format(name=name, index=f"identities_by_{name}", counts=_COUNTS, of_test=_OF_TEST)
    for by, name in ((Grouping.PIPELINE, "pipeline_name"), (Grouping.JOB, "job_name"))
}

# Reads the files in ranges [low, high). The last range has the empty blob as its upper bound,
# because any text is less than a blob.
_BY_FILE: Final = f"""
WITH RECURSIVE ranges (low, high) AS (
    SELECT '', (
        SELECT filepath FROM tests INDEXED BY tests_by_filepath
        WHERE repository_id = ?1 AND filepath > '' ORDER BY filepath LIMIT 1 OFFSET ?2
    )
    UNION ALL
    SELECT high, (
        SELECT filepath FROM tests INDEXED BY tests_by_filepath
        WHERE repository_id = ?1 AND filepath > ranges.high ORDER BY filepath LIMIT 1 OFFSET ?2
    ) FROM ranges WHERE high IS NOT NULL
)
SELECT (
    SELECT json_group_array(counts) FROM (
        SELECT json_array(filepath, {_COUNTS}) AS counts FROM (
            SELECT t.filepath AS filepath, {_OF_TEST}
            FROM tests t INDEXED BY tests_by_filepath
            CROSS JOIN identities i INDEXED BY identities_by_test ON i.test = t.id
            WHERE t.repository_id = ?1 AND t.filepath >= low AND t.filepath < ifnull(high, x'')
                AND i.health_status IS NOT NULL
            GROUP BY t.filepath, t.id
        ) GROUP BY filepath
    )
) FROM ranges
"""

# The same for tests without a file: a name with a slash may be a path. All names without a slash
# are counted as one, because no file follows from them.
_WITHOUT_FILE: Final = f"""
WITH RECURSIVE ranges (low, high) AS (
    SELECT '', (
        SELECT test_name FROM identities INDEXED BY identities_by_test_name
        WHERE repository_id = ?1 AND health_status IS NOT NULL AND test_name > ''
        ORDER BY test_name LIMIT 1 OFFSET ?2
    )
    UNION ALL
    SELECT high, (
        SELECT test_name FROM identities INDEXED BY identities_by_test_name
        WHERE repository_id = ?1 AND health_status IS NOT NULL AND test_name > ranges.high
        ORDER BY test_name LIMIT 1 OFFSET ?2
    ) FROM ranges WHERE high IS NOT NULL
)
SELECT (
    SELECT json_group_array(counts) FROM (
        SELECT json_array(path, {_COUNTS}) AS counts FROM (
            SELECT iif(instr(i.test_name, '/'), i.test_name, NULL) AS path, {_OF_TEST}
            FROM identities i INDEXED BY identities_by_test_name
            CROSS JOIN tests t ON t.id = i.test
            WHERE i.repository_id = ?1 AND i.health_status IS NOT NULL
                AND i.test_name >= low AND i.test_name < ifnull(high, x'')
                AND t.filepath IS NULL
            GROUP BY i.test_name
        ) GROUP BY path
    )
) FROM ranges
"""


def group_tests(
    connection: sqlite3.Connection,
    repository: RepositoryName,
    by: Grouping,
    most: int,
    find_values: FindValues,
) -> list[TestGroup]:
    repository_id = find_repository_id(connection, repository)
    if repository_id is None:
        return []
    if by in _NAMES:
        return choose_worst(_read_names(connection, repository_id, by), most)
    counts = GroupCounts()
    for filepath, of_file in _read_texts(connection, repository_id, _BY_FILE):
        for value in find_values(filepath, None):
            counts.add(value, of_file)
    for test_name, of_name in _read_texts(connection, repository_id, _WITHOUT_FILE):
        for value in find_values(None, test_name):
            counts.add(value, of_name)
    return counts.choose_worst(most)


def _read_texts(
    connection: sqlite3.Connection, repository_id: int, sql: str
) -> Iterator[tuple[str | None, Sequence[int]]]:
    for (texts,) in connection.execute(sql, (repository_id, _TESTS_AT_ONCE)):
        for text, *counts in map(orjson.loads, orjson.loads(texts)):
            yield text, counts


def _read_names(
    connection: sqlite3.Connection, repository_id: int, by: Grouping
) -> Iterator[TestGroup]:
    for name, counts in connection.execute(_NAMES[by], (repository_id,)):
        yield group_of(name, orjson.loads(counts))
