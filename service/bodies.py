"""The bodies of what the store is asked, as the response schemas declare them. Pure.

Written out for speed: rows come by the thousand, and a schema takes several times as long for
each. A test holds every body here to the bytes that its schema gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from indexing.models.executions import PullRequest
from indexing.models.quarantines import Quarantine
from indexing.models.tests import TestDetail, TestIdentity


def detail_body(test: TestDetail) -> bytes:
    """As `TestDetailAnswer`."""
    health, metadata = test.health, test.metadata
    return _encode(
        {
            "repository": str(test.repository),
            "test_name": test.test_name,
            "test_id": test.test_id,
            "health_status": health.health_status,
            "last_conclusion": health.last_conclusion,
            "failure_ratio": health.failure_ratio,
            "flakiness_ratio": health.flakiness_ratio,
            "success_ratio": health.success_ratio,
            "flaky_detection_enabled": test.flaky_detection_enabled,
            "first_failure_at": health.first_failure_at,
            "first_failure_commit": health.first_failure_commit,
            "first_failure_pull": _shape_pull(health.first_failure_pull),
            "last_failure_at": health.last_failure_at,
            "last_success_at": health.last_success_at,
            "test_framework": metadata.framework,
            "test_framework_version": metadata.framework_version,
            "test_programming_language": metadata.language,
            "test_filepath": metadata.filepath,
            "test_function_name": metadata.function_name,
        }
    )


def search_body(tests: Sequence[TestIdentity], per_page: int) -> bytes:
    """As `TestPageAnswer`."""
    shown = [
        {
            "test_id": test.test_id,
            "test_name": test.key.test_name,
            "pipeline_name": test.key.pipeline_name,
            "job_name": test.key.job_name,
        }
        for test in tests
    ]
    return _encode({"size": len(tests), "per_page": per_page, "tests": shown})


def quarantine_body(quarantine: Quarantine) -> bytes:
    """As `QuarantineAnswer`."""
    return _encode(_shape_quarantine(quarantine))


def quarantines_body(quarantines: Sequence[Quarantine]) -> bytes:
    """As `QuarantinesAnswer`."""
    return _encode({"quarantined_tests": [_shape_quarantine(row) for row in quarantines]})


def _shape_quarantine(quarantine: Quarantine) -> dict[str, Any]:
    return {
        "id": quarantine.key.id,
        "test_name": quarantine.test_name,
        "reason": quarantine.reason,
        "branch": quarantine.branch,
        "created_at": quarantine.key.created_at,
        "source": quarantine.source,
        "is_recovered": quarantine.is_recovered,
    }


def _shape_pull(pull: PullRequest | None) -> dict[str, Any] | None:
    if pull is None:
        return None
    user = {"id": pull.user_id, "login": pull.user_login}
    return {"id": pull.id, "number": pull.number, "title": pull.title, "user": user}


def _encode(shape: dict[str, Any]) -> bytes:
    # Moments and ids are turned into text by the encoder itself.
    return orjson.dumps(shape, option=orjson.OPT_UTC_Z)
