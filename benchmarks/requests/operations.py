"""The measured operations, each declared once for all stacks. Pure.

A repeated request can be answered from a cache. Numbered requests 1, 2, 3 and so on cannot: each is
different but costs about the same. The numbered requests of a deep page are the pages after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from benchmarks.data.generated import ENDINGS, ODD_WORD, TESTS_A_MODULE, module_of, tag_of
from indexing.names import RepositoryName

# An ending that occurs even in the smallest measured repository.
_ENDING: Final = 17


class Kind(Enum):
    """The part of the interface that a request uses."""

    DETAIL = "detail"
    QUARANTINES = "quarantines"
    EVENTS = "events"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class QueriedRepository:
    """The repository of a request, and its number of tests."""

    repository: RepositoryName
    tests: int


# Returns the glob of request `number`, or of the repeated request if it is None.
Glob = Callable[[QueriedRepository, int | None], str]


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table.

    `page` is the measured page, reached beforehand by the links of the measured stack.
    """

    name: str
    title: str
    kind: Kind
    per_page: int = 10
    page: int = 1
    glob: Glob | None = None

    @property
    def is_cached_by_peers(self) -> bool:
        """Return whether the peers cache its responses: events arrive at any time."""
        return self.kind is not Kind.EVENTS


def _prefix(queried: QueriedRepository, number: int | None) -> str:
    test = queried.tests // 2 if number is None else number * TESTS_A_MODULE % queried.tests
    return f"{module_of(test)}*"


def _rare(queried: QueriedRepository, number: int | None) -> str:
    test = queried.tests // 2 if number is None else number % queried.tests
    return f"*_{tag_of(test)}_*"


def _suffix(queried: QueriedRepository, number: int | None) -> str:
    ending = _ENDING if number is None else number % min(ENDINGS, queried.tests)
    return f"*_{ending:03}"


def _always(glob: str) -> Glob:
    return lambda _asked, _number: glob


OPERATIONS: Final = (
    Operation("detail", "test detail", Kind.DETAIL),
    Operation("quarantines", "quarantine list, 12 KB", Kind.QUARANTINES),
    Operation("events-10", "event page of 10", Kind.EVENTS),
    Operation("events-100", "event page of 100", Kind.EVENTS, per_page=100),
    Operation("events-deep", "event page 500, of 10", Kind.EVENTS, page=500),
    Operation("glob-prefix", "glob, prefix (100 match)", Kind.SEARCH, glob=_prefix),
    Operation("glob-rare", "glob, rare substring (1 in 4,096)", Kind.SEARCH, glob=_rare),
    Operation(
        "glob-common", "glob, common substring (1 in 8)", Kind.SEARCH, glob=_always("*parse*")
    ),
    Operation("glob-suffix", "glob, suffix (1 in 1,000)", Kind.SEARCH, glob=_suffix),
    Operation(
        "glob-two",
        "glob, two characters (1 in 2,000)",
        Kind.SEARCH,
        glob=_always(f"*{ODD_WORD}*"),
    ),
    Operation("glob-chain", "glob, `*a*b*c*` (1 in 7)", Kind.SEARCH, glob=_always("*a*b*c*")),
)

# The slowest kind of search: no index narrows it, so it reads every name, and few of them match.
SCAN: Final = Operation(
    "glob-scan",
    "glob, two characters apart (1 in 2,000)",
    Kind.SEARCH,
    glob=_always("*".join(("", *ODD_WORD, ""))),
)

# The names of one operation of each kind, for measurements of what all have in common.
OF_EACH_KIND: Final = ("detail", "quarantines", "events-100", "glob-prefix")

BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
SEARCHES: Final = tuple(o for o in OPERATIONS if o.kind is Kind.SEARCH)
EVENT_PAGES: Final = tuple(o for o in OPERATIONS if o.kind is Kind.EVENTS)
