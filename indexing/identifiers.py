"""Parses ids, and derives ids from content, which makes writes idempotent."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from indexing.errors import InvalidValueError
from indexing.models.executions import Run
from indexing.names import RepositoryName

# The UUID namespace of this project, derived from its name.
NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "mergewatch")

# JavaScript represents integers of up to 53 bits exactly.
DERIVED_EVENT_ID_BITS: Final = 53
# The largest value of an integer column in both stores: event ids, numbers and ids of pull
# requests.
MAX_INTEGER: Final = 2**63 - 1

# RFC 9562, section 4, without the other spellings that Python's own parser accepts.
UUID_PATTERN: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_UUID: Final = re.compile(UUID_PATTERN)


# A request reads the id in its path three times.
@lru_cache(maxsize=128)
def read_uuid(text: str) -> uuid.UUID:
    """Parse a UUID in its canonical form, of any version and in any case."""
    if not _UUID.fullmatch(text):
        raise InvalidValueError("must be a UUID, such as 3f0c9a4e-8d1b-5f6a-9c2d-0123456789ab")
    return uuid.UUID(text)


def derive_test_id(repository: RepositoryName, test_name: str) -> uuid.UUID:
    """Return the public id of a test, shared by all pipelines and jobs that run it."""
    return uuid.uuid5(NAMESPACE, f"{repository.key}\0{test_name}")


DeriveTestId = Callable[[str], uuid.UUID]


@lru_cache(maxsize=128)
def make_test_id_deriver(repository: RepositoryName) -> DeriveTestId:
    """Return a function like `derive_test_id` for one repository; it takes half the time."""
    # RFC 9562, section 5.5: the id is the SHA-1 of the namespace and the name. The hash of the
    # namespace and the repository is the same for all tests, so it is computed once.
    beginning = hashlib.sha1(NAMESPACE.bytes, usedforsecurity=False)
    beginning.update(f"{repository.key}\0".encode())

    def derive(test_name: str) -> uuid.UUID:
        digest = beginning.copy()
        digest.update(test_name.encode())
        return uuid.UUID(bytes=digest.digest()[:16], version=5)

    return derive


def derive_identity_id(
    repository: RepositoryName, test_name: str, pipeline_name: str, job_name: str
) -> bytes:
    """Return the key of one (test, pipeline, job), 16 bytes."""
    return _digest("identity", repository.key, test_name, pipeline_name, job_name)


def derive_repository_id(repository: RepositoryName) -> bytes:
    """Return the key of one repository, 16 bytes, for use where its name would be too long."""
    return _digest("repository", repository.key)


def derive_event_row_id(repository: RepositoryName, received_at: int, event_id: int) -> bytes:
    """Return the key of one event of the log, 16 bytes; `received_at` is in microseconds."""
    return _digest("event", repository.key, str(received_at), str(event_id))


def derive_run_id(repository: RepositoryName, run: Run) -> bytes:
    """Return the key of one attempt of one job of a run, 16 bytes; it can fail as a whole."""
    return _digest("run", *_parts_of(repository, run))


def derive_arrival_id(repository: RepositoryName, run: Run) -> bytes:
    """Return the key of an arrival, 16 bytes: of a run and all that one report says of it."""
    pull = run.pull
    about = [] if pull is None else [pull.id, pull.title, pull.user_id, pull.user_login]
    url, number = run.job_url or "", "" if run.pull_number is None else str(run.pull_number)
    parts = (*_parts_of(repository, run), run.branch, run.commit, url, number)
    return _digest("arrival", *parts, *map(str, about))


def derive_quarantine_slot_id(test_id: uuid.UUID, branch: str | None) -> bytes:
    """Return the key of a test and a branch pattern (or all branches), 16 bytes."""
    return _digest("scope", test_id.hex, *([] if branch is None else [branch]))


def derive_quarantine_id(test_id: uuid.UUID, number: int) -> uuid.UUID:
    """Return the id of a test's automatic quarantine on all branches, after `number` ended ones."""
    return uuid.uuid5(NAMESPACE, f"quarantine\0{test_id}\0{number}")


def derive_change_id(quarantine_id: uuid.UUID, action: str, *values: str) -> uuid.UUID:
    """Return the id of a change of a quarantine; `values` are its time and all values it sets."""
    return uuid.UUID(bytes=_digest("change", quarantine_id.hex, action, *values), version=5)


def derive_notification_id(test_id: uuid.UUID, about: str, *values: str) -> uuid.UUID:
    """Return the id of a notification about a test; `values` distinguish it from all others."""
    digest = _digest("notification", test_id.hex, about, *values)
    return uuid.UUID(bytes=digest, version=5)


def derive_failure_id(test_id: uuid.UUID, failure_type: str, shape: str) -> uuid.UUID:
    """Return the id that equal failures of a test share; `shape` is from `indexing.failures`."""
    digest = _digest("failure", test_id.hex, failure_type, shape)
    return uuid.UUID(bytes=digest, version=5)


def derive_application_id(name: str) -> uuid.UUID:
    """Return the id of an application that is an actor in events, derived from its name."""
    return uuid.uuid5(NAMESPACE, f"application\0{name}")


def derive_junit_execution_id(
    identity_id: bytes, run_id: str, attempt: int, report_digest: bytes, ordinal: int
) -> bytes:
    """Return the key of one execution from a JUnit report, 16 bytes.

    The digest of the report distinguishes two shards of one job; `ordinal` counts equal names
    within one report, from 0.
    """
    return _digest(
        "junit", identity_id.hex(), run_id, str(attempt), report_digest.hex(), str(ordinal)
    )


def derive_otlp_execution_id(identity_id: bytes, trace_id: bytes, span_id: bytes) -> bytes:
    """Return the key of one execution from a span, 16 bytes."""
    return _digest("otlp", identity_id.hex(), trace_id.hex(), span_id.hex())


def derive_trace_id(repository: RepositoryName, run: Run) -> bytes:
    """Return the trace id of all executions of one run of one job, 16 bytes."""
    return _digest("otlp-trace", *_parts_of(repository, run))


def derive_span_id(execution_id: bytes) -> bytes:
    """Return the span id of one execution, 8 bytes, because its own id is too long for a span."""
    return hashlib.blake2b(execution_id, digest_size=8, person=b"otlp-span").digest()


def derive_event_id(content: bytes) -> int:
    """Return an event id derived from the event's canonical content, from 0 to 2^53 - 1."""
    digest = hashlib.blake2b(content, digest_size=8, person=b"event-id").digest()
    return int.from_bytes(digest, "big") >> (64 - DERIVED_EVENT_ID_BITS)


def _parts_of(repository: RepositoryName, run: Run) -> tuple[str, ...]:
    return (repository.key, run.run_id, str(run.attempt), run.pipeline_name, run.job_name)


def _digest(kind: str, *parts: str) -> bytes:
    """Hash the parts into 16 bytes; their lengths are hashed too, so boundaries matter."""
    state = hashlib.blake2b(digest_size=16, person=kind.encode())
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(4, "big"))
        state.update(data)
    return state.digest()
