"""Reads decoded responses of the cluster. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.failures import NOT_FOUND, describe, error_of, is_passing

T = TypeVar("T")


def is_answer(answer: Any, needs: str | None) -> bool:
    """Return whether a node may have given that response.

    Each response of a node is an object. Unless it is an error, it has the field `needs`, if that
    is given.
    """
    if not isinstance(answer, dict):
        return False
    return needs is None or needs in answer or isinstance(failure_in(answer), dict)


def failure_in(answer: Any) -> Any:
    """Return the error in a response; None if there is none."""
    return answer.get("error") if isinstance(answer, dict) else None


def document_of(answer: Any) -> Document | None:
    """Return the document in a response; None if it is missing.

    Raises:
        StoreError: the cluster cannot read it.
    """
    if "_seq_no" in answer:
        return Document.of(answer)
    if "error" in answer:
        raise error_of(NOT_FOUND, answer)
    return None


def is_refused(answer: Any) -> bool:
    """Return whether the cluster refused this one of several searches for a moment."""
    return is_passing(answer.get("status", 0), failure_in(answer))


def error_in(answer: Any) -> StoreError | None:
    """Return the error of a search or a refresh that failed, or failed on a shard."""
    if "error" in answer:
        return error_of(answer.get("status", 503), answer)
    if answer.get("timed_out") or answer["_shards"]["failed"]:
        failures = answer["_shards"].get("failures")
        why = f" ({describe(failures[0]['reason'])})" if failures else ""
        return StoreUnavailableError(f"Elasticsearch gives a part of the answer only{why}")
    return None


def raise_first(outcomes: Sequence[T | StoreError]) -> list[T]:
    """Return the outcomes; raise the first error among them."""
    found = []
    for outcome in outcomes:
        if isinstance(outcome, StoreError):
            raise outcome
        found.append(outcome)
    return found
