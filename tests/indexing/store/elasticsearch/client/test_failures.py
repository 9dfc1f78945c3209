"""Errors as Elasticsearch 9 returns them: their classification, and the operator's message."""

from __future__ import annotations

from typing import Any

import pytest

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store.elasticsearch.client.failures import (
    ConflictError,
    TooComplexError,
    TooManyTermsError,
    describe,
    error_of,
    error_of_write,
    is_passing,
    refuses_document,
)


def failed_search(kind: str, reason: str) -> dict[str, Any]:
    cause = {"type": kind, "reason": reason}
    outer = {"type": "search_phase_execution_exception", "reason": "all shards failed"}
    return {"error": outer | {"root_cause": [cause], "caused_by": cause}, "status": 400}


SHARD_LIMIT = {
    "type": "validation_exception",
    "reason": "Validation Failed: 1: this action would add [2] shards, but this cluster currently"
    " has [12]/[1] maximum normal shards open;",
}
WRITE_BLOCK = {
    "type": "cluster_block_exception",
    "reason": "index [m-events-2026-01] blocked by: [FORBIDDEN/8/index write (api)];",
}
FULL_DISK = {
    "type": "cluster_block_exception",
    "reason": "index [m-events-2026-01] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded"
    " flood-stage watermark, index has read-only-allow-delete block];",
}
NO_INDEX = {
    "type": "index_not_found_exception",
    "reason": "no such index [m-events-2026-01] and [action.auto_create_index] is [false]",
}
FULL_SHARD = {
    "type": "illegal_argument_exception",
    "reason": "Number of documents in shard [m-events-2026-01][0] exceeds the limit of [2147483519]"
    " documents per shard",
}
NO_PIPELINE = {
    "type": "illegal_argument_exception",
    "reason": "pipeline with id [x] does not exist",
}
MISTYPED = {
    "type": "document_parsing_exception",
    "reason": "[1:6] failed to parse field [n] of type [long] in document with id '2'."
    " Preview of field's value: 'hunter2'",
    "caused_by": {"type": "illegal_argument_exception", "reason": "For input string"},
}
IMMENSE = {
    "type": "illegal_argument_exception",
    "reason": 'Document contains at least one immense term in field="k" (whose UTF8 encoding is'
    " longer than the max length 32766), all of which were skipped. The prefix of the first"
    " immense term is: '[104, 117, 110]...'",
}

TOO_LARGE = {
    "type": "illegal_argument_exception",
    "reason": 'DocValuesField "k" is too large, must be <= 32766',
}
IMMENSE_BELOW = {
    "type": "illegal_argument_exception",
    "reason": "the document cannot be indexed",
    "caused_by": IMMENSE,
}


@pytest.mark.parametrize("error", [MISTYPED, IMMENSE, TOO_LARGE, IMMENSE_BELOW])
def test_a_document_that_no_mapping_can_take_is_refused(error: dict[str, Any]) -> None:
    assert refuses_document(400, error)
    raised = error_of_write("m-events-2026-01", 400, error)
    assert not isinstance(raised, StoreUnavailableError)
    assert "m-events-2026-01" in str(raised)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, SHARD_LIMIT),
        (400, FULL_SHARD),
        (400, NO_PIPELINE),
        (400, {"type": "index_closed_exception", "reason": "closed"}),
        (403, WRITE_BLOCK),
        (404, NO_INDEX),
        (429, FULL_DISK),
        (503, {"type": "unavailable_shards_exception", "reason": "primary shard is not active"}),
    ],
)
def test_a_state_of_the_cluster_is_never_the_fault_of_a_document(
    status: int, error: dict[str, Any]
) -> None:
    assert not refuses_document(status, error)
    raised = error_of_write("m-events-2026-01", status, error)
    assert isinstance(raised, StoreUnavailableError)
    assert "m-events-2026-01" in str(raised)
    assert error["reason"] in str(raised)


@pytest.mark.parametrize(
    ("status", "error"), [(400, SHARD_LIMIT), (403, WRITE_BLOCK), (404, NO_INDEX), (429, FULL_DISK)]
)
def test_such_a_state_is_unavailable_for_any_other_request_too(
    status: int, error: dict[str, Any]
) -> None:
    raised = error_of(status, {"error": error})
    assert isinstance(raised, StoreUnavailableError)
    assert error["reason"] in str(raised)


def test_the_index_is_named_where_its_reason_does_not_name_it() -> None:
    closed = {"type": "index_closed_exception", "reason": "closed", "index": "m-tests"}
    said = str(error_of(400, {"error": {**closed, "root_cause": [closed]}}))
    assert said == "Elasticsearch answers 400 (index_closed_exception: closed [m-tests])"
    gone = {"type": "index_not_found_exception", "reason": "no such index [m-a]", "index": "m-a"}
    assert str(error_of(404, {"error": gone})).count("m-a") == 1


def test_a_refused_search_is_raised_with_the_innermost_reason() -> None:
    answer = failed_search("too_many_nested_clauses", "maxClauseCount is set to 1024")
    raised = error_of(400, answer)
    assert isinstance(raised, TooManyTermsError)
    assert str(raised) == (
        "Elasticsearch answers 400 (search_phase_execution_exception: all shards failed;"
        " too_many_nested_clauses: maxClauseCount is set to 1024)"
    )


def test_patterns_that_the_cluster_does_not_run_are_unavailable_and_the_setting_is_named() -> None:
    reason = "[wildcard] queries cannot be executed when 'search.allow_expensive_queries' is false"
    raised = error_of(400, failed_search("exception", reason))
    assert isinstance(raised, StoreUnavailableError)
    assert "search.allow_expensive_queries" in str(raised)


def test_other_errors_keep_their_meaning() -> None:
    too_complex = failed_search("too_complex_to_determinize_exception", "too large")
    assert isinstance(error_of(400, too_complex), TooComplexError)
    assert isinstance(error_of(409, {"error": {"type": "any"}}), ConflictError)
    refused = error_of(403, {"error": {"type": "security_exception", "reason": "unauthorized"}})
    assert isinstance(refused, StoreUnavailableError)
    assert "does not let this service in" in str(refused)
    assert "let this service in" not in str(error_of(403, {"error": WRITE_BLOCK}))
    assert isinstance(error_of(502, "a proxy's page"), StoreUnavailableError)
    assert type(error_of(400, None)) is StoreError


@pytest.mark.parametrize("error", [MISTYPED, IMMENSE])
def test_nothing_of_a_document_is_repeated(error: dict[str, Any]) -> None:
    told = describe(error)
    assert error["type"] in told
    assert "hunter2" not in told
    assert "104, 117" not in told


def test_a_reason_of_any_length_is_cut() -> None:
    assert len(describe({"type": "exception", "reason": "x" * 100_000})) == 400


def test_only_a_full_disk_is_not_waited_for() -> None:
    assert is_passing(429, {"type": "es_rejected_execution_exception"})
    assert is_passing(503, {"type": "cluster_block_exception"})
    assert not is_passing(429, FULL_DISK)
    assert not is_passing(403, WRITE_BLOCK)
