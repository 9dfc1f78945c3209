"""Conditions of a test search as pieces of SQL. Pure: runs no query.

In the SQL, `i` is the name of the table `identities`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from indexing.globs import is_literal, literal_prefix
from indexing.models.file_selections import FileSelection
from indexing.models.tests import TestQuery, number_statuses
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.quarantine_rows import IN_FORCE
from indexing.timestamps import to_microseconds

# The name of the SQL function for `indexing.globs.matches`, for characters that GLOB confuses.
EXACT_MATCH: Final = "glob_matches"
# The name of the SQL function for `indexing.models.quarantines.covers_branch`.
COVERS_BRANCH: Final = "covers_branch"

# SQLite reads these two and every surrogate as U+FFFD, so its GLOB treats all three as equal.
CONFUSED_BY_GLOB: Final = frozenset("\ufffd\ufffe\uffff")

# GLOB takes time up to the length of the pattern times that of the name. A pattern of this length
# takes half a millisecond on the longest name, the most that may pass between two clock checks.
_HEAVY_LENGTH: Final = 64

# With more files than this, their tests are no longer looked up and sorted: a walk in the order of
# the search soon finds a page of them.
_MANY_TO_LOOK_UP: Final = 5_000

# A request has the same patterns in several plans, and a walk in all of its pages.
PATTERNS_KEPT: Final = 256

# The condition for quarantines in force on the default branch; the parameter is the current time.
_IN_FORCE_ON_DEFAULT_BRANCH: Final = (
    f"{IN_FORCE} AND (q.branch IS NULL OR {COVERS_BRANCH}(q.branch, r.default_branch))"
)


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL with the values of its parameters, in order."""

    text: str
    values: tuple[Any, ...] = ()


def has_heavy_pattern(query: TestQuery) -> bool:
    """Return whether matching one long name may take too long for the event loop."""
    patterns = (*query.patterns, *query.patterns_excluded, *query.filepaths)
    return any(_is_heavy(pattern) for pattern in patterns)


@lru_cache(PATTERNS_KEPT)
def _is_heavy(pattern: str) -> bool:
    return len(pattern[len(literal_prefix(pattern)) :].strip("*")) > _HEAVY_LENGTH


def name_condition(query: TestQuery) -> Sql:
    """Build the condition that the name matches any pattern; exact."""
    return _match_any("test_name", query.patterns)


def filter_condition(query: TestQuery) -> Sql:
    """Build the condition of all filters except the patterns; empty, or it begins with AND."""
    parts: list[Sql] = []
    for column, operator, names in (
        ("pipeline_name", "IN", query.pipelines),
        ("pipeline_name", "NOT IN", query.pipelines_excluded),
        ("job_name", "IN", query.jobs),
        ("job_name", "NOT IN", query.jobs_excluded),
    ):
        if names:
            parts.append(Sql(f"{column} {operator} ({list_marks(names)})", tuple(names)))
    if query.health is not None:
        numbers = number_statuses(query.health)
        parts.append(Sql(f"health_status IN ({list_marks(numbers)})", numbers))
    if query.patterns_excluded:
        excluded = _match_any("test_name", query.patterns_excluded)
        parts.append(Sql(f"NOT {excluded.text}", excluded.values))
    if query.filepaths:
        matching = _match_file(query.filepaths)
        text = f"EXISTS (SELECT 1 FROM tests t WHERE t.id = i.test AND {matching.text})"
        parts.append(Sql(text, matching.values))
    if query.files is not None:
        parts.append(_is_of_files(query.files))
    if query.quarantined is not None:
        quarantined = quarantined_condition(query, "i.test")
        negation = "" if query.quarantined else "NOT "
        parts.append(Sql(negation + quarantined.text, quarantined.values))
    return _conjoin(parts)


def quarantined_condition(query: TestQuery, test: str) -> Sql:
    """Build the condition that a test is quarantined on the default branch.

    `test` is the column with the row id of the test.
    """
    return Sql(
        "EXISTS (SELECT 1 FROM tests t JOIN quarantines q ON q.test_id = t.test_id"
        " JOIN repositories r ON r.id = q.repository_id"
        f" WHERE t.id = {test} AND {_IN_FORCE_ON_DEFAULT_BRANCH})",
        (to_microseconds(query.now),),
    )


def narrowing_condition(query: TestQuery, repository_id: int) -> Sql | None:
    """Build a condition that few tests meet, from the filters; `None` if there is no such filter.

    Its cost does not depend on the number of rows for which it is checked.
    """
    parts: list[Sql] = []
    if query.quarantined:
        text = (
            "i.test IN (SELECT t.id FROM quarantines q JOIN repositories r ON r.id ="
            " q.repository_id JOIN tests t ON t.test_id = q.test_id WHERE q.repository_id = ?"
            f" AND {_IN_FORCE_ON_DEFAULT_BRANCH})"
        )
        parts.append(Sql(text, (repository_id, to_microseconds(query.now))))
    if _narrows_by_filepaths(query):
        matching = _match_file(query.filepaths)
        text = (
            "i.test IN (SELECT t.id FROM tests t INDEXED BY tests_by_filepath"
            f" WHERE t.repository_id = ? AND {matching.text})"
        )
        parts.append(Sql(text, (repository_id, *matching.values)))
    if query.files is not None and _narrows_by_files(query.files):
        # Looks each file up; SQLite would rather read all files.
        text = (
            "i.test IN (SELECT t.id FROM json_each(?) f"
            " CROSS JOIN tests t INDEXED BY tests_by_filepath"
            " ON t.filepath = f.value AND t.filepath IS NOT NULL WHERE t.repository_id = ?)"
        )
        parts.append(Sql(text, (json_array(query.files.paths), repository_id)))
    return _conjoin(parts) if parts else None


def has_narrowing(query: TestQuery) -> bool:
    """Return whether there is a narrowing condition; building it would encode all files."""
    return (
        bool(query.quarantined)
        or _narrows_by_filepaths(query)
        or (query.files is not None and _narrows_by_files(query.files))
    )


def _narrows_by_filepaths(query: TestQuery) -> bool:
    return bool(query.filepaths) and all(pattern.strip("*") for pattern in query.filepaths)


def _narrows_by_files(files: FileSelection) -> bool:
    return not files.without_file and len(files.paths) <= _MANY_TO_LOOK_UP


def _is_of_files(files: FileSelection) -> Sql:
    # One parameter for any number of files: SQLite makes an index of them, once a statement.
    matching = "t.filepath IN (SELECT value FROM json_each(?))"
    if files.without_file:
        matching = f"(t.filepath IS NULL OR {matching})"
    text = f"EXISTS (SELECT 1 FROM tests t WHERE t.id = i.test AND {matching})"
    return Sql(text, (json_array(files.paths),))


def _match_file(patterns: tuple[str, ...]) -> Sql:
    matching = _match_any("t.filepath", patterns)
    return Sql(f"t.filepath IS NOT NULL AND {matching.text}", matching.values)


@lru_cache(PATTERNS_KEPT)
def _match_any(column: str, patterns: tuple[str, ...]) -> Sql:
    """Build the condition that the text of the column matches any pattern; exact."""
    literals = tuple(p for p in patterns if is_literal(p))
    conditions: list[str] = []
    values: list[str] = []
    if literals:
        conditions.append(f"{column} IN ({list_marks(literals)})")
        values += literals
    for pattern in patterns:
        if is_literal(pattern):
            continue
        if not pattern.strip("*"):
            return Sql("1")
        exact = f"{EXACT_MATCH}(?, {column})"
        if _is_heavy(pattern) and "?" not in pattern:
            # Here `globs.matches` is faster. With `?` it is not, and it would hold the
            # interpreter's lock while it matches one long name.
            conditions.append(exact)
            values.append(pattern)
            continue
        # `[` is special in GLOB; as the only member of a character class, it is literal.
        globbed = pattern.replace("[", "[[]")
        if CONFUSED_BY_GLOB.intersection(pattern):
            conditions.append(f"({column} GLOB ? AND {exact})")
            values += [globbed, pattern]
        else:
            conditions.append(f"{column} GLOB ?")
            values.append(globbed)
    return Sql(f"({' OR '.join(conditions)})", tuple(values))


def _conjoin(parts: Iterable[Sql]) -> Sql:
    parts = list(parts)
    text = "".join(f" AND {part.text}" for part in parts)
    return Sql(text, tuple(value for part in parts for value in part.values))


def list_marks(values: Sequence[Any]) -> str:
    """Return as many parameter marks as there are values."""
    return ", ".join("?" * len(values))
