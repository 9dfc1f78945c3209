"""Translates errors of the cluster into `indexing.errors`, with messages for the operator. Pure.

A message holds the type and the reason that the cluster gave, truncated. It goes to the log and to
the command line, never into an HTTP body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from indexing.errors import StoreError, StoreUnavailableError

BAD_REQUEST: Final = 400
FORBIDDEN: Final = frozenset({401, 403})
NOT_FOUND: Final = 404
CONFLICT: Final = 409
# The statuses that mean the same without a reason.
SAY_ENOUGH: Final = FORBIDDEN | {CONFLICT}
TOO_MANY: Final = 429
# The statuses of transient errors: a full queue, a proxy error, a cluster without a master, a shard
# that is being relocated.
PASSING: Final = frozenset({TOO_MANY, 502, 503, 504})

INDEX_GONE: Final = "index_not_found_exception"
BLOCKED: Final = "cluster_block_exception"

# These have the status 400 although the request is valid: the cluster is full, an index is closed,
# blocked or missing, or another program has made its mapping strict, which then takes no document:
# each has fields that are not mapped. The operator can fix that.
_STATE_OF_CLUSTER: Final = frozenset(
    {
        INDEX_GONE,
        BLOCKED,
        "index_closed_exception",
        "strict_dynamic_mapping_exception",
        "validation_exception",
    }
)

# The document does not fit the mapping of the index.
_DOCUMENT_REFUSED: Final = frozenset({"document_parsing_exception", "mapper_parsing_exception"})
# An `illegal_argument_exception` concerns the document only if its reason says so: a full shard or
# a missing ingest pipeline has the same type.
_ILLEGAL_ARGUMENT: Final = "illegal_argument_exception"
_TERM_TOO_LONG: Final = re.compile(r"immense term|is too large, must be <=")

_LONGEST_MESSAGE: Final = 400
# After these words, the reason quotes the content of the document, which must not be logged.
_DOCUMENT_CONTENT: Final = re.compile(
    r"\s*(Preview of field's value:|The prefix of the first immense term is:).*", re.DOTALL
)

_TOO_COMPLEX: Final = "too_complex_to_determinize"
_TOO_MANY_TERMS: Final = frozenset({"too_many_clauses", "too_many_nested_clauses"})
EXPENSIVE_QUERIES: Final = "search.allow_expensive_queries"
PATTERNS_REFUSED: Final = (
    f"the setting {EXPENSIVE_QUERIES} of Elasticsearch is false, so searches by prefixes and many"
    " other patterns are unavailable; set it to true"
)


class ConflictError(StoreError):
    """The document exists already, or has changed since it was read."""


class LargeAnswerError(StoreError):
    """The answer has more bytes than the caller accepts."""


class TooComplexError(StoreError):
    """The engine refuses the pattern because its automaton would be too large."""


class TooManyTermsError(StoreError):
    """The engine refuses the query because it stands for more terms than one query may have."""


def error_of(status: int, answer: Any) -> StoreError:
    """Build the domain error for an unsuccessful response."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if status == CONFLICT:
        return ConflictError("the document is not the one that was read")
    reason = describe(error)
    everything = f"{error}"
    if _TOO_COMPLEX in everything:
        return TooComplexError("the pattern is too complex for Elasticsearch")
    if EXPENSIVE_QUERIES in everything:
        return StoreUnavailableError(PATTERNS_REFUSED)
    kind = type_of(error)
    if status in FORBIDDEN and kind not in _STATE_OF_CLUSTER:
        return StoreUnavailableError(f"Elasticsearch does not let this service in ({reason})")
    message = f"Elasticsearch answers {status} ({reason})"
    if not _TOO_MANY_TERMS.isdisjoint(_types_in(error)):
        return TooManyTermsError(message)
    if status == BAD_REQUEST and _STATE_OF_CLUSTER.isdisjoint(_types_in(error)):
        return StoreError(message)
    # Everything else is a state of the cluster, which the operator can fix.
    return StoreUnavailableError(message)


def error_of_write(index: str, status: int, error: Mapping[str, Any]) -> StoreError:
    """Build the domain error for one failed document of a bulk request."""
    reason = describe(error)
    if refuses_document(status, error):
        return StoreError(f"Elasticsearch refuses a document of the index {index} ({reason})")
    message = f"Elasticsearch takes no documents for the index {index} ({reason})"
    if status == BAD_REQUEST and type_of(error) not in _STATE_OF_CLUSTER | {_ILLEGAL_ARGUMENT}:
        return StoreError(message)
    return StoreUnavailableError(message)


def refuses_document(status: int, error: Mapping[str, Any]) -> bool:
    """Return whether the index can never store this document, whatever the cluster's state."""
    if status != BAD_REQUEST:
        return False
    kind = type_of(error)
    if kind == _ILLEGAL_ARGUMENT:
        return any(_TERM_TOO_LONG.search(each.get("reason") or "") for each in _chain(error))
    return kind in _DOCUMENT_REFUSED


def is_passing(status: int, error: Any) -> bool:
    """Return whether a retry of the same request may succeed within seconds.

    A block with the status 429 means a full disk, which takes longer to fix.
    """
    return status in PASSING and not (status == TOO_MANY and type_of(error) == BLOCKED)


def type_of(error: Any) -> str:
    """Return the type of the error, as the cluster names it."""
    return str(error.get("type", "error")) if isinstance(error, Mapping) else "error"


def describe(error: Any) -> str:
    """Return the types and reasons of an error, outermost first, without document content."""
    if not isinstance(error, Mapping):
        return "error"
    parts: list[str] = []
    for each in _chain(error):
        reason = _DOCUMENT_CONTENT.sub("", str(each.get("reason") or ""))
        part = f"{type_of(each)}: {reason}" if reason else type_of(each)
        index = each.get("index")
        if isinstance(index, str) and index not in part:
            part += f" [{index}]"
        if part not in parts:
            parts.append(part)
    text = "; ".join(parts)
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def _types_in(error: Any) -> set[str]:
    return {type_of(each) for each in _chain(error)} if isinstance(error, Mapping) else set()


def _chain(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the error, its first root cause, and its chain of causes."""
    yield error
    roots = error.get("root_cause") or ()
    yield from (root for root in roots[:1] if isinstance(root, Mapping))
    cause = error.get("caused_by")
    while isinstance(cause, Mapping):
        yield cause
        cause = cause.get("caused_by")
