"""Puts this process into the environment of a CI job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest


def enter(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], event: object) -> None:
    """Set the environment of that CI for this process, with that event in its event file."""
    Path("event.json").write_bytes(orjson.dumps(event))
    for name, value in {**environment, "GITHUB_EVENT_PATH": "event.json"}.items():
        monkeypatch.setenv(name, value)
