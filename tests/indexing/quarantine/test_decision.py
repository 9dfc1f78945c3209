"""When a test belongs in automatic quarantine: at the thresholds, and for any history."""

from __future__ import annotations

from datetime import datetime

import pytest

from indexing.health.observations import Observation
from indexing.health.rules import build_rollups
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus, TestHealth, TestMetadata
from indexing.quarantine.decision import Evidence, JudgedState, explain_quarantine, find_evidence
from indexing.timestamps import to_microseconds
from tests.builders import NOON, after

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


def seen(
    conclusion: Conclusion, at: datetime, *, retried: bool = False, infrastructure: bool = False
) -> Observation:
    return Observation(
        "ci",
        "unit",
        "c0",
        conclusion,
        to_microseconds(at),
        retried,
        infrastructure,
        None,
        TestMetadata(),
    )


def evidence_of(observations: list[Observation]) -> Evidence | None:
    return find_evidence(build_rollups(observations).values())


def test_failures_and_retried_passes_are_evidence_and_nothing_else_is() -> None:
    assert evidence_of([]) is None
    assert evidence_of([seen(PASSED, NOON), seen(SKIPPED, NOON, retried=True)]) is None
    assert evidence_of([seen(FAILED, NOON, infrastructure=True)]) is None
    assert evidence_of(
        [
            seen(PASSED, after(days=3)),
            seen(PASSED, after(days=2), retried=True),
            seen(FAILED, NOON),
            seen(FAILED, after(days=4), infrastructure=True),
        ]
    ) == Evidence(NOON, after(days=2))


@pytest.mark.parametrize(
    ("status", "ignore_broken", "expected"),
    [
        (HealthStatus.FLAKY, False, True),
        (HealthStatus.FLAKY, True, True),
        (HealthStatus.BROKEN, False, True),
        (HealthStatus.BROKEN, True, False),
        (HealthStatus.HEALTHY, False, False),
        (HealthStatus.UNKNOWN, False, False),
    ],
)
def test_only_what_cannot_be_trusted_is_quarantined(
    status: HealthStatus, ignore_broken: bool, expected: bool
) -> None:
    state = JudgedState(TestHealth(health_status=status), Evidence(NOON, NOON), "Because.")
    reason = explain_quarantine(state, ignore_broken=ignore_broken, answered_until=None)
    assert (reason is not None) is expected
    assert reason is None or reason.startswith(status.value)
    assert reason is None or reason.endswith(" Because.")


def test_evidence_that_a_person_has_judged_is_no_reason() -> None:
    state = JudgedState(TestHealth(health_status=HealthStatus.FLAKY), Evidence(NOON, NOON))
    for answered_until, expected in ((after(microseconds=-1), True), (NOON, False)):
        reason = explain_quarantine(state, ignore_broken=False, answered_until=answered_until)
        assert (reason is not None) is expected
