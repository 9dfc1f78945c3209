"""Commands and requests beside a service that runs as a process."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

from tests.forked import run_forked
from tests.service.processes import TIMEOUT


def ask(url: str, key: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - our own
        return json.load(answer)


def make_key(data_dir: Path, scope: str) -> str:
    return mergewatch(data_dir, "keys", "create", "--name=n", "--owner=acme", f"--scope={scope}")


def mergewatch(data_dir: Path, *arguments: str) -> str:
    """Run a command while the service runs; return its standard output."""
    environment = {**os.environ, "MERGEWATCH_DATA_DIR": str(data_dir)}
    return run_forked(*arguments, environment=environment)
