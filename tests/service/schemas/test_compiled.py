"""Compiled encoders produce the same bytes as `Schema.dump`."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import Schema, fields

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
from indexing.models.tests import TestMetrics as Metrics
from indexing.models.verdict_counts import VerdictCounts
from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds
from service.cache.quarantine_details import DetailedQuarantine
from service.http.field_errors import FieldError
from service.http.problems import Problem
from service.http.problems import body as problem_body
from service.schemas.compiled import compile_encoder
from service.schemas.responses import (
    QUARANTINE_DETAILS,
    EventPageAnswer,
    InvalidAnswer,
    ProblemAnswer,
    QuarantineAnswer,
    QuarantinesAnswer,
    Rows,
    TestDetailAnswer,
    TestPageAnswer,
    TestStatePageAnswer,
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
keys = st.builds(IdentityKey, st.integers(), texts, texts, texts)
metrics = st.builds(
    Metrics,
    st.sampled_from(HealthStatus),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    ratios,
    ratios,
    st.none() | st.floats(0, 1e9),
    st.none() | moments,
    st.none() | moments,
    st.lists(st.sampled_from(["passed", "failed", "flaky"]), max_size=3).map(tuple),
    st.booleans(),
)
identities = st.builds(Row, st.uuids(), keys)
measured = st.builds(Row, st.uuids(), keys, metrics)
quarantine_fields: dict[str, Any] = {
    "key": st.builds(QuarantineKey, moments, st.uuids()),
    "test_name": texts,
    "reason": texts,
    "branch": st.none() | texts,
    "source": st.sampled_from(QuarantineSource),
    "is_recovered": st.booleans(),
    "owner": st.none() | texts,
    "expires_at": st.none() | moments,
}
quarantines = st.builds(Quarantine, **quarantine_fields)
counts = st.integers(0, 2**40)
detailed_quarantines = st.builds(
    DetailedQuarantine,
    **quarantine_fields,
    test_id=st.uuids(),
    verdicts_since=st.builds(VerdictCounts, counts, counts, counts),
)


def dump(schema: type[Schema], value: object) -> bytes:
    return orjson.dumps(schema().dump(value))


@given(details)
def test_a_test_detail_is_encoded_as_its_schema_dumps_it(detail: TestDetail) -> None:
    assert compile_encoder(TestDetailAnswer)(detail) == dump(TestDetailAnswer, detail)


@given(st.lists(identities, max_size=3), st.integers(1, 100))
def test_a_search_page_is_encoded_as_its_schema_dumps_it(rows: list[Row], per_page: int) -> None:
    page = Rows(rows, len(rows), per_page)
    without = ("tests.metrics", "total", "total_is_exact")
    dumped = TestPageAnswer(exclude=without).dump(page)
    assert compile_encoder(TestPageAnswer, without=without)(page) == orjson.dumps(dumped)


@given(st.lists(measured, max_size=3), st.integers(1, 100))
def test_a_search_page_with_metrics_and_total_too(rows: list[Row], per_page: int) -> None:
    page = Rows(rows, len(rows), per_page, total=per_page, total_is_exact=True)
    assert compile_encoder(TestPageAnswer)(page) == dump(TestPageAnswer, page)


@given(st.lists(quarantines, max_size=3))
def test_quarantines_are_encoded_as_their_schemas_dump_them(rows: list[Quarantine]) -> None:
    page = Rows(rows, len(rows))
    without = [f"quarantined_tests.{name}" for name in QUARANTINE_DETAILS]
    dumped = QuarantinesAnswer(exclude=without).dump(page)
    assert compile_encoder(QuarantinesAnswer, without=without)(page) == orjson.dumps(dumped)
    for row in rows:
        dumped = QuarantineAnswer(exclude=QUARANTINE_DETAILS).dump(row)
        encode = compile_encoder(QuarantineAnswer, without=QUARANTINE_DETAILS)
        assert encode(row) == orjson.dumps(dumped)


@given(st.lists(quarantines, max_size=3), st.integers(1, 100))
def test_test_states_are_encoded_as_their_schema_dumps_them(
    rows: list[Quarantine], per_page: int
) -> None:
    page = Rows(rows, len(rows), per_page)
    assert compile_encoder(TestStatePageAnswer)(page) == dump(TestStatePageAnswer, page)


@given(st.lists(detailed_quarantines, max_size=3))
def test_quarantines_with_details_are_encoded_as_their_schema_dumps_them(
    rows: list[DetailedQuarantine],
) -> None:
    page = Rows(rows, len(rows))
    assert compile_encoder(QuarantinesAnswer)(page) == dump(QuarantinesAnswer, page)


@given(st.lists(st.dictionaries(texts, texts, max_size=2).map(orjson.dumps), max_size=3))
def test_events_are_put_into_their_page_as_the_text_that_is_stored(bodies: list[bytes]) -> None:
    page = Rows(bodies, len(bodies), 10)
    assert compile_encoder(EventPageAnswer)(page) == dump(EventPageAnswer, page)


@given(st.sampled_from([403, 422, 503]), texts, st.lists(texts, max_size=2))
def test_a_problem_is_encoded_as_its_schema_dumps_it(
    status: int, detail: str, wrong: list[str]
) -> None:
    problem = Problem(status, detail, errors=[FieldError("query", name, "no") for name in wrong])
    schema = InvalidAnswer if wrong else ProblemAnswer
    assert problem_body(problem) == dump(schema, problem)


def test_a_field_of_an_unknown_kind_cannot_be_compiled() -> None:
    class WithUrl(Schema):
        url = fields.Url()

    with pytest.raises(TypeError, match="Url"):
        compile_encoder(WithUrl)


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
        assert b'"last_failure_at":"' + text + b'"' in compile_encoder(TestDetailAnswer)(detail)
