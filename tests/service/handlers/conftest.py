"""What the tests of streams of events share."""

from __future__ import annotations

import pytest

from indexing.store.elasticsearch import arrivals
from service.handlers import event_stream
from service.streaming import hub


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams look for events every few milliseconds, and stamps settle soon."""
    monkeypatch.setattr(arrivals, "SETTLING_SECONDS", 0.4)
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.02)
