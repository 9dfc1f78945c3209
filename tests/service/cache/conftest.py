"""Tests of the cache run on every stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.config.settings import Settings
from tests.service.conftest import EVERY_STACK, make_stack


@pytest.fixture(params=EVERY_STACK)
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """The settings of a service over an empty store."""
    return make_stack(request, tmp_path)
