"""Commands with settings that name files for TLS to Redis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.indexing.store.sqlite.versions import load_samples
from tests.service.cli.conftest import Command


def test_only_commands_that_may_use_redis_need_its_certificates(
    settings: Mapping[str, str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_samples()[-1].unpack(Path(settings["MERGEWATCH_DATA_DIR"]))
    monkeypatch.setenv("MERGEWATCH_REDIS_URL", "rediss://cache.example?ssl_ca_certs=/missing.pem")
    command("index", "backup", str(tmp_path / "copy"))
    # Other processes would keep answers that this write changes.
    refused = command("repository", "set", "acme/widgets", "--flaky-detection", "off", code=2)
    assert "MERGEWATCH_REDIS_URL: must have a readable file" in refused.stderr
