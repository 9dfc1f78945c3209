"""Reads the metrics in an answer."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.service.front_door import Answer


def samples(answer: Answer) -> dict[tuple[str, ...], float]:
    """Return the values by metric name and label values."""
    assert answer.status == 200
    families = text_string_to_metric_families(answer.body.decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
