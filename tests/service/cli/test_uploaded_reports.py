"""Reports that `mergewatch ingest junit` uploads to a running service, and a direct load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.forked import ForkedCommand
from tests.service.beside import ask, make_key, mergewatch
from tests.service.processes import Start, port_of

ROOT = Path(__file__).parents[3]
MANIFEST = ROOT / "examples" / "lammps-regression" / "manifest.csv"


def upload(environment: Mapping[str, str]) -> str:
    """Upload the reports from a machine without a store; return the last line of output."""
    arguments = ("ingest", "junit", "--repository=acme/sent", "--manifest", str(MANIFEST))
    done = ForkedCommand(*arguments, environment={**os.environ, **environment}).wait()
    assert done.returncode == 0, done.stderr
    assert environment["MERGEWATCH_TOKEN"] not in done.stdout + done.stderr
    return done.stderr.splitlines()[-1]


def read_all(base: str, key: str) -> dict[str, Any]:
    """Return every identity in the search, with the detail of its test."""
    rows: list[dict[str, Any]] = []
    for job in ("serial", "parallel"):
        for name in ("*[A-M]*", "in.*", "*bench*", "*"):
            query = f"test_name={name}&job_name={job}&per_page=20"
            rows += ask(f"{base}/search/tests?{query}", key)["tests"]
    found = {}
    for row in rows:
        detail = ask(f"{base}/tests/{row['test_id']}", key)
        # The fields that differ between the two repositories.
        detail.pop("repository")
        detail.pop("test_id")
        found[f"{row['pipeline_name']} {row['job_name']} {row['test_name']}"] = detail
    return found


def test_uploaded_twice_is_what_a_direct_load_gives(
    start: Start, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    service = start(MERGEWATCH_INGEST="true")
    address = f"http://127.0.0.1:{port_of(service.next_line('listening'))}"
    for name in ("sent", "loaded"):
        mergewatch(tmp_path, "repository", "set", f"acme/{name}", "--default-branch", "preview")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    environment = {
        "MERGEWATCH_URL": address,
        "MERGEWATCH_TOKEN": make_key(tmp_path, "ingest"),
        "MERGEWATCH_DATA_DIR": str(elsewhere / "none"),
    }
    first = upload(environment)
    again = upload(environment)
    assert first == again
    assert first.endswith("unchanged 0, refused 0")
    assert not (elsewhere / "none").exists()
    arguments = ("ingest", "junit", "--repository=acme/loaded", "--manifest", str(MANIFEST))
    mergewatch(tmp_path, *arguments)
    key = make_key(tmp_path, "read")
    sent, loaded = (
        read_all(f"{address}/v1/ci/acme/repositories/{name}", key) for name in ("sent", "loaded")
    )
    assert sent == loaded
    assert len(sent) > 40
    assert service.stop() == 0
