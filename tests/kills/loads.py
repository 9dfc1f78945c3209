"""The loads: command lines, and the repository settings that they need first."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import orjson

from indexing.models.repositories import RepositoryChange
from indexing.names import RepositoryName
from indexing.timestamps import format_timestamp
from tests.builders import GADGETS, NOON, WIDGETS
from tests.service.real_runs import REGRESSION

# Six batches.
EVENTS = 6_000
# Enough reports for a test to be broken, and few enough to load many times.
REPORTS = 5

NO_CHANGE = RepositoryChange()


@dataclass(frozen=True)
class Load:
    """A command line, the repositories it fills, and their settings before the load."""

    arguments: Sequence[str]
    repositories: Sequence[RepositoryName]
    settings: RepositoryChange = NO_CHANGE


def make_events(folder: Path) -> Load:
    """Events of two repositories, over three months."""
    file = folder / "events.ndjson"
    with file.open("wb") as lines:
        for number in range(EVENTS):
            event = {
                "id": number,
                "received_at": format_timestamp(NOON - timedelta(minutes=number * 20)),
                "trigger": "rule",
                "repository": str(WIDGETS if number % 3 else GADGETS),
                "pull_request": number % 100 + 1,
                "base_ref": "main",
                "type": "action.rebase",
                "metadata": {},
            }
            lines.write(orjson.dumps(event) + b"\n")
    return Load(("ingest", "events", str(file)), (WIDGETS, GADGETS))


def make_reports(folder: Path) -> Load:
    """Real reports, in a repository that quarantines broken tests."""
    with (REGRESSION.folder / "manifest.csv").open(newline="") as listed:
        rows = list(csv.DictReader(listed))[:REPORTS]
    manifest = folder / "manifest.csv"
    with manifest.open("w", newline="") as chosen:
        writer = csv.DictWriter(chosen, rows[0])
        writer.writeheader()
        writer.writerows(row | {"file": str(REGRESSION.folder / row["file"])} for row in rows)
    command = ("ingest", "junit", f"--repository={REGRESSION.repository}", f"--manifest={manifest}")
    settings = RepositoryChange(default_branch=REGRESSION.default_branch, auto_quarantine=True)
    return Load(command, (REGRESSION.repository,), settings)


LOADS = {"events": make_events, "junit": make_reports}
