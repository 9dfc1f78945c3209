"""What is asked: each operation once, with its path for every dialect that can ask it. Pure.

Asked over and over, a request can be answered from a cache; asked as number 1, 2, 3 and so on it
cannot: each number asks something else that costs the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from benchmarks.data.made_up import EVENTS_FROM, EVENTS_TO, ODD_WORD, module_of, name_of, tag_of
from indexing.identifiers import derive_test_id
from indexing.names import RepositoryName
from indexing.timestamps import format_timestamp, to_microseconds

# What Datasette calls the file, and where the repository that was loaded first stands in it.
_TABLES: Final = "/mergewatch"
_REPOSITORY_ROW: Final = "1"


@dataclass(frozen=True, slots=True)
class Asked:
    """The repository that is asked about, and how many tests it has."""

    repository: RepositoryName
    tests: int


# The path of request `number`, or of the one that is asked over and over.
Path = Callable[[Asked, int | None], str]


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table.

    `page` is the page that is measured, walked to beforehand by the links of whoever is asked.
    `kept` says that caches keep its answers. `alone` has it measured with a single client too.
    """

    name: str
    title: str
    path: Path
    datasette: Path
    kept: bool = True
    page: int = 1
    alone: bool = False


def _detail(asked: Asked, number: int | None) -> str:
    name = name_of((number or 0) % asked.tests)
    test_id = derive_test_id(asked.repository, name)
    return f"/v1/ci/{_ci(asked)}/tests/{test_id}"


def _detail_row(asked: Asked, number: int | None) -> str:
    return f"{_TABLES}/tests/{(number or 0) % asked.tests + 1}.json?_shape=array"


def _quarantines(asked: Asked, number: int | None) -> str:
    branch = "" if number is None else f"?branch=feature-{number}"
    return f"/v1/ci/{_ci(asked)}/quarantines{branch}"


def _quarantine_rows(_asked: Asked, _number: int | None) -> str:
    return _rows("quarantines", ("removed_at__isnull", "1"), ("_sort", "created_at"), size=100)


def _events(per_page: int) -> Path:
    query = urlencode(
        {
            "received_from": format_timestamp(EVENTS_FROM),
            "received_to": format_timestamp(EVENTS_TO),
            "per_page": per_page,
        }
    )
    return lambda asked, _: f"/v1/repos/{asked.repository}/logs?{query}"


def _event_rows(per_page: int) -> Path:
    return lambda _asked, _number: _rows(
        "events",
        ("received_at__gte", str(to_microseconds(EVENTS_FROM))),
        ("received_at__lt", str(to_microseconds(EVENTS_TO))),
        ("_sort_desc", "received_at"),
        size=per_page,
    )


def _search(pattern_of: Callable[[Asked], str]) -> Path:
    def path(asked: Asked, number: int | None) -> str:
        excluded = "" if number is None else f"&job_name_exclude=none-{number}"
        pattern = quote(pattern_of(asked), safe="*")
        return f"/v1/ci/{_ci(asked)}/search/tests?test_name={pattern}{excluded}"

    return path


def _search_rows(pattern_of: Callable[[Asked], str]) -> Path:
    def path(asked: Asked, number: int | None) -> str:
        excluded = [] if number is None else [("job_name__not", f"none-{number}")]
        return _rows(
            "identities",
            ("executions_count__notnull", "1"),
            ("test_name__glob", pattern_of(asked)),
            *excluded,
            ("_sort_desc", "executions_count"),
            size=10,
        )

    return path


def _glob(name: str, shown: str, pattern_of: Callable[[Asked], str]) -> Operation:
    return Operation(
        name,
        f"glob, {shown}",
        _search(pattern_of),
        _search_rows(pattern_of),
        alone=True,
    )


def _ci(asked: Asked) -> str:
    return f"{asked.repository.owner}/repositories/{asked.repository.name}"


def _rows(table: str, *filters: tuple[str, str], size: int) -> str:
    query = urlencode(
        [
            ("repository_id", _REPOSITORY_ROW),
            *filters,
            ("_size", size),
            ("_nocount", "1"),
            ("_shape", "array"),
        ],
        safe="*",
    )
    return f"{_TABLES}/{table}.json?{query}"


OPERATIONS: Final = (
    Operation("detail", "test detail", _detail, _detail_row),
    Operation("quarantines", "quarantine list, 12 KB", _quarantines, _quarantine_rows),
    Operation("events-10", "event page of 10", _events(10), _event_rows(10), kept=False),
    Operation("events-100", "event page of 100", _events(100), _event_rows(100), kept=False),
    Operation(
        "events-deep", "event page 500, of 10", _events(10), _event_rows(10), kept=False, page=500
    ),
    _glob("glob-prefix", "prefix (100 match)", lambda asked: f"{module_of(asked.tests // 2)}*"),
    _glob("glob-rare", "rare substring", lambda asked: f"*_{tag_of(asked.tests // 2)}_*"),
    _glob("glob-common", "common substring (1 in 8)", lambda _: "*parse*"),
    _glob("glob-suffix", "suffix (1 in 1,000)", lambda _: "*_017"),
    _glob("glob-two", "two characters (1 in 2,000)", lambda _: f"*{ODD_WORD}*"),
    _glob("glob-chain", "`*a*b*c*`", lambda _: "*a*b*c*"),
)

BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
GLOBS: Final = tuple(operation.name for operation in OPERATIONS if operation.alone)
