"""The rules over real CI results, read by other means than the product's own reader."""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from indexing.health.rules import Observation, is_infrastructure_failure, judge
from indexing.models.executions import Conclusion
from indexing.models.tests import TestMetadata

SAMPLES = Path(__file__).parents[2] / "samples"


def read_results(path: Path) -> list[tuple[str, Conclusion]]:
    with gzip.open(path) as stream:
        root = parse(stream).getroot()  # noqa: S314 - a sample of this repository
    results = []
    for case in root.iter("testcase"):
        tags = {child.tag for child in case}
        conclusion = Conclusion.PASSED
        if tags & {"failure", "error"}:
            conclusion = Conclusion.FAILED
        elif "skipped" in tags:
            conclusion = Conclusion.SKIPPED
        results.append((f"{case.get('classname')}.{case.get('name')}", conclusion))
    return results


def read_observations(folder: Path, branch: str) -> dict[str, list[Observation]]:
    """The executions of each test on one branch, out of the manifest and its reports."""
    observations = defaultdict(list)
    with (folder / "manifest.csv").open() as manifest:
        runs = [row for row in csv.DictReader(manifest) if row["branch"] == branch]
    for run in runs:
        results = read_results(folder / run["file"])
        count = Counter(conclusion for _, conclusion in results)
        infrastructure = is_infrastructure_failure(
            count[Conclusion.PASSED], count[Conclusion.FAILED]
        )
        for name, conclusion in results:
            observations[name].append(
                Observation(
                    pipeline_name=run["pipeline_name"],
                    job_name=run["job_name"],
                    commit=run["commit"],
                    conclusion=conclusion,
                    finished_at=datetime.fromisoformat(run["started_at"]),
                    needed_retries=False,
                    infrastructure_failure=infrastructure,
                    pull=None,
                    metadata=TestMetadata(),
                )
            )
    return observations


@pytest.mark.parametrize(
    ("project", "branch", "expected"),
    [
        ("lammps", "develop", {"broken": 1, "flaky": 2, "healthy": 1_121}),
        (
            "lammps-regression",
            "preview",
            {"broken": 313, "flaky": 3, "healthy": 389, "unknown": 177},
        ),
    ],
)
def test_real_projects_come_out_with_the_known_figures(
    project: str, branch: str, expected: dict[str, int]
) -> None:
    statuses = Counter(
        judge(observations, flaky_detection=True).health.health_status.value
        for observations in read_observations(SAMPLES / project, branch).values()
    )
    assert statuses == expected
