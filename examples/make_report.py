"""Writes `mergewatch/`: the report of this project's own tests and the manifest that names it.

Run by `make example-report`, in a checkout with a commit. Data about the machine is removed.
"""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

FOLDER = Path(__file__).parent / "mergewatch"
COLUMNS = ["file", "pipeline_name", "job_name", "branch", "commit", "started_at", "run_id"]


def main() -> None:
    """Run the tests and keep their report."""
    started_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
        subprocess.run(pytest, check=True)  # noqa: S603 - our own tests
        document = ET.parse(report)  # noqa: S314 - written by the line above
    for suite in document.iter("testsuite"):
        suite.attrib.pop("hostname", None)
    for element in document.iter():
        # Remove properties, in which Hypothesis puts its statistics.
        for properties in element.findall("properties"):
            element.remove(properties)
    FOLDER.mkdir(exist_ok=True)
    # A fixed time in the header: equal reports make equal files.
    packed = gzip.compress(ET.tostring(document.getroot()), mtime=0)
    (FOLDER / "report.xml.gz").write_bytes(packed)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607 - any installed git
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with (FOLDER / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerow(["report.xml.gz", "ci", "tests", "main", commit, started_at, started_at])


if __name__ == "__main__":
    main()
