"""The metrics of a search row survive being stored."""

from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from indexing.models.executions import MAX_DURATION
from indexing.models.tests import HealthStatus, TestMetrics
from indexing.store.row_values import RowValues

COUNTS = st.integers(0, 2**31)
RATIOS = st.floats(0, 1)
MOMENTS = st.datetimes(timezones=st.just(UTC))
# Mean durations have whole microseconds.
DURATIONS = st.integers(0, MAX_DURATION * 1_000_000).map(lambda number: number / 1_000_000)
METRICS = st.builds(
    TestMetrics,
    st.sampled_from(HealthStatus),
    COUNTS,
    COUNTS,
    RATIOS,
    RATIOS,
    st.none() | DURATIONS,
    st.none() | MOMENTS,
    st.none() | MOMENTS,
    st.lists(st.sampled_from(["passed", "failed", "flaky"]), max_size=20).map(tuple),
    st.booleans(),
)


@given(METRICS)
def test_metrics_survive_being_stored(metrics: TestMetrics) -> None:
    assert RowValues.of(metrics).metrics(is_quarantined=metrics.is_quarantined) == metrics
