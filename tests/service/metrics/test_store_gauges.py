"""Gauges that a scrape reads from the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.metrics_core import Metric

from service.metrics.store_gauges import StoreGauges


class Failing(StoreGauges):
    async def _read(self) -> float:
        raise ZeroDivisionError

    def collect(self) -> Iterator[Metric]:
        raise NotImplementedError


@pytest.mark.parametrize("wait_seconds", [None, 20.0])
async def test_an_unexpected_error_fails_the_scrape(wait_seconds: float | None) -> None:
    gauges = Failing(wait_seconds)
    # The second one tries again.
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await gauges.refresh()
