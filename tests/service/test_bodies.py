"""Bodies that are written out, held to the schemas that declare them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import orjson
from hypothesis import given
from hypothesis import strategies as st

from indexing.models.executions import Conclusion, PullRequest
from indexing.models.quarantines import Quarantine, QuarantineKey, QuarantineSource
from indexing.models.tests import (
    HealthStatus,
    IdentityKey,
    TestDetail,
    TestHealth,
    TestMetadata,
)
from indexing.models.tests import (
    TestIdentity as Row,
)
from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds
from service.bodies import detail_body, quarantine_body, quarantines_body, search_body
from service.schemas.responses import (
    QuarantineAnswer,
    QuarantinesAnswer,
    TestDetailAnswer,
    TestPageAnswer,
)
from tests.strategies import texts

moments = st.integers(-(2**45), 2**47).map(from_microseconds) | st.integers(0, 2**33).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)
ratios = st.floats(0, 1)
pulls = st.builds(
    PullRequest,
    id=st.integers(0, 2**63 - 1),
    number=st.integers(0, 2**63 - 1),
    title=texts,
    user_id=st.integers(0, 2**63 - 1),
    user_login=texts,
)
details = st.builds(
    TestDetail,
    repository=st.builds(RepositoryName, st.just("Alfa"), st.just("bravo.Charlie")),
    test_name=texts,
    test_id=st.uuids(),
    flaky_detection_enabled=st.booleans(),
    health=st.builds(
        TestHealth,
        health_status=st.sampled_from(HealthStatus),
        last_conclusion=st.sampled_from([*(c.value for c in Conclusion), "unknown"]),
        failure_ratio=ratios,
        flakiness_ratio=ratios,
        success_ratio=ratios,
        first_failure_at=st.none() | moments,
        first_failure_commit=st.none() | texts,
        first_failure_pull=st.none() | pulls,
        last_failure_at=st.none() | moments,
        last_success_at=st.none() | moments,
    ),
    metadata=st.builds(TestMetadata, *[st.none() | texts] * 5),
)
identities = st.builds(
    Row,
    st.binary(),
    st.uuids(),
    st.builds(IdentityKey, st.integers(), texts, texts, texts),
)
quarantines = st.builds(
    Quarantine,
    key=st.builds(QuarantineKey, moments, st.uuids()),
    test_name=texts,
    reason=texts,
    branch=st.none() | texts,
    source=st.sampled_from(QuarantineSource),
    is_recovered=st.booleans(),
    owner=st.none() | texts,
    expires_at=st.none() | moments,
)


@given(details)
def test_detail_is_what_its_schema_gives(detail: TestDetail) -> None:
    assert detail_body(detail) == orjson.dumps(TestDetailAnswer().dump(detail))


@given(st.lists(identities, max_size=3), st.integers(1, 100))
def test_page_of_a_search_is_what_its_schema_gives(rows: list[Row], per_page: int) -> None:
    declared = TestPageAnswer().dump({"size": len(rows), "per_page": per_page, "tests": rows})
    assert search_body(rows, per_page) == orjson.dumps(declared)


@given(st.lists(quarantines, max_size=3))
def test_quarantines_are_what_their_schemas_give(rows: list[Quarantine]) -> None:
    declared = QuarantinesAnswer().dump({"quarantined_tests": rows})
    assert quarantines_body(rows) == orjson.dumps(declared)
    for row in rows:
        assert quarantine_body(row) == orjson.dumps(QuarantineAnswer().dump(row))


def test_fraction_of_a_second_has_six_digits_or_none() -> None:
    whole = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for moment, text in (
        (whole, b"2026-01-31T12:00:00Z"),
        (whole + timedelta(microseconds=1), b"2026-01-31T12:00:00.000001Z"),
        (whole + timedelta(milliseconds=500), b"2026-01-31T12:00:00.500000Z"),
    ):
        detail = TestDetail(
            RepositoryName("a", "b"),
            "t",
            uuid.UUID(int=1),
            flaky_detection_enabled=True,
            health=TestHealth(last_failure_at=moment),
            metadata=TestMetadata(),
        )
        assert b'"last_failure_at":"' + text + b'"' in detail_body(detail)
