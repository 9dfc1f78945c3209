"""216 real CI runs, from files to responses, compared with counts that share no code with them."""

from __future__ import annotations

import ast
import asyncio
import csv
import gzip
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.tests import HealthStatus
from indexing.models.trends import Stat
from indexing.store import ElasticsearchPlace
from indexing.store.series import OF_EXECUTIONS
from service.config.settings import Settings
from tests import independent_health
from tests.independent_health import write_time
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.service.real_runs import LAMMPS, REGRESSION, LoadedProject, ingest, load, load_into

pytestmark = pytest.mark.slow

# Judging every test anew on each day would take minutes.
DAYS_JUDGED = 4

Counts = dict[str, Counter[str]]


@pytest.fixture(scope="module", autouse=True)
def forget_executions() -> Iterator[None]:
    """Read each folder once for all tests of this module, and free the memory after the last."""
    yield
    independent_health.read_executions.cache_clear()


@pytest.fixture(scope="session")
def lammps(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    return load(LAMMPS, tmp_path_factory.mktemp("lammps"))


@pytest.fixture(scope="session")
def regression(tmp_path_factory: pytest.TempPathFactory) -> LoadedProject:
    return load(REGRESSION, tmp_path_factory.mktemp("regression"))


@pytest.fixture(params=["lammps", "regression"])
def loaded(request: pytest.FixtureRequest) -> LoadedProject:
    found: LoadedProject = request.getfixturevalue(request.param)
    return found


def count_files(loaded: LoadedProject) -> tuple[Counts, dict[str, set[str]]]:
    """Count the conclusions of each job; collect its test names on the default branch."""
    counts: Counts = defaultdict(Counter)
    names: dict[str, set[str]] = defaultdict(set)
    folder = loaded.project.folder
    with (folder / "manifest.csv").open(newline="") as manifest:
        for row in csv.DictReader(manifest):
            results = independent_health.read_results(folder / row["file"])
            counts[row["job_name"]].update(result for _, result in results)
            if row["branch"] == loaded.project.default_branch:
                names[row["job_name"]].update(name for name, _ in results)
    return dict(counts), dict(names)


def count_store(loaded: LoadedProject) -> Counts:
    connection = sqlite3.connect(loaded.data_dir / "mergewatch.db")
    counts: Counts = defaultdict(Counter)
    for job, conclusion, count in connection.execute(
        "SELECT job_name, conclusion, count(*) FROM executions JOIN runs ON runs.id = run"
        " GROUP BY 1, 2"
    ):
        counts[job][("passed", "failed", "skipped")[conclusion]] = count
    connection.close()
    return dict(counts)


def ci_path(loaded: LoadedProject) -> str:
    name = loaded.project.repository
    return f"/v1/ci/{name.owner}/repositories/{name.name}"


async def search(door: FrontDoor, loaded: LoadedProject, query: str = "") -> list[dict[str, Any]]:
    target = f"{ci_path(loaded)}/search/tests?test_name=*&per_page=100&sort=test_name{query}"
    return [test for page in await door.walk(target, "tests") for test in page]


def test_every_result_of_the_files_is_stored_once(loaded: LoadedProject) -> None:
    counts, _ = count_files(loaded)
    total = sum(sum(counter.values()) for counter in counts.values())
    assert loaded.summary == f"read {total}, written {total}, unchanged 0, refused 0"
    assert count_store(loaded) == counts


def test_every_run_comes_out_the_same_in_elasticsearch(
    regression: LoadedProject, elasticsearch_place: ElasticsearchPlace
) -> None:
    assert load_into(REGRESSION, elasticsearch_place) == (regression.summary, regression.state)
    # A line for each row and each test, at least; the other project has only three unhealthy tests.
    assert len(regression.state) > 2 * 882


def test_loading_some_of_the_runs_again_changes_nothing(
    regression: LoadedProject, tmp_path: Path
) -> None:
    before = count_store(regression)
    load_again(regression, tmp_path)
    assert count_store(regression) == before


def load_again(regression: LoadedProject, tmp_path: Path) -> None:
    folder = regression.project.folder
    with (folder / "manifest.csv").open(newline="") as manifest:
        rows = list(csv.DictReader(manifest))[20:26]
    again = tmp_path / "again.csv"
    with again.open("w", newline="") as manifest:
        writer = csv.DictWriter(manifest, rows[0])
        writer.writeheader()
        writer.writerows(row | {"file": str(folder / row["file"])} for row in rows)
    total = sum(int(row["tests"]) for row in rows)
    said = ingest(regression.project, regression.data_dir, again)
    assert said == f"read {total}, written 0, unchanged {total}, refused 0"


async def test_failures_are_grouped_as_a_person_groups_them(
    regression: LoadedProject, tmp_path: Path
) -> None:
    folder = regression.project.folder
    with (folder / "failures-by-hand.csv").open(newline="") as listed:
        rows = list(csv.DictReader(listed))
    assert len(rows) == 20
    messages = count_messages(folder, {row["test_name"] for row in rows})
    assert messages == {(row["test_name"], row["message"]): int(row["count"]) for row in rows}
    by_hand: Counter[tuple[str, str]] = Counter()
    for row in rows:
        by_hand[row["test_name"], row["group"]] += int(row["count"])
    groups = {(row["test_name"], row["message"]): row["group"] for row in rows}
    async for door in open_door(Settings(data_dir=regression.data_dir)):
        door.key = await door.new_key(owner="lammps")
        for times in (1, 2):
            if times == 2:
                await asyncio.to_thread(load_again, regression, tmp_path)
            found: dict[tuple[str, str], int] = {}
            for name in {row["test_name"] for row in rows}:
                test_id = derive_test_id(regression.project.repository, name)
                answer = await door.get(f"{ci_path(regression)}/tests/{test_id}/failures")
                for failure in answer.json["failures"]:
                    group = groups[name, failure["exception_message"]]
                    # Two failures that a person takes for one would collide here.
                    assert (name, group) not in found
                    found[name, group] = failure["failure_count"]
            assert found == by_hand


def count_messages(folder: Path, names: set[str]) -> Counter[tuple[str, str]]:
    """Count how often each of these tests failed with each message in the files."""
    found: Counter[tuple[str, str]] = Counter()
    for report in folder.glob("*.xml.gz"):
        with gzip.open(report) as stream:
            for case in ET.parse(stream).iter("testcase"):  # noqa: S314 - files of this repository
                name = f"{case.get('classname')}.{case.get('name')}"
                for failure in (*case.iterfind("failure"), *case.iterfind("error")):
                    if name in names:
                        found[name, failure.get("message") or ""] += 1
    return found


async def test_the_search_finds_what_runs_on_the_default_branch(lammps: LoadedProject) -> None:
    _, names = count_files(lammps)
    async for door in open_door(Settings(data_dir=lammps.data_dir)):
        door.key = await door.new_key(owner="lammps")
        for job in names:
            found = [test["test_name"] for test in await search(door, lammps, f"&job_name={job}")]
            assert len(found) == len(set(found))
            assert set(found) == names[job]
        assert await search(door, lammps, "&job_name=linux-x86_64-gcc") == []
    assert len(names["windows-msvc"]) == 1_096
    assert len(set().union(*names.values())) == 1_124


async def test_the_search_says_of_every_row_what_an_independent_script_says(
    loaded: LoadedProject,
) -> None:
    project = loaded.project
    _, executions = independent_health.read_executions(project.folder, project.default_branch)
    expected = {}
    for name, of_test in executions.items():
        for (pipeline, job), metrics in independent_health.measure_rows(of_test).items():
            times = ("last_execution_at", "last_failure_at")
            told = {each: metrics[each] and write_time(metrics[each]) for each in times}
            expected[name, pipeline, job] = {**metrics, **told}
    async for door in open_door(Settings(data_dir=loaded.data_dir)):
        door.key = await door.new_key(owner="lammps")
        answer = await door.get(f"{ci_path(loaded)}/quarantines")
        quarantined = {each["test_name"] for each in answer.json["quarantined_tests"]}
        for (name, _, _), metrics in expected.items():
            metrics["is_quarantined"] = name in quarantined
        rows = await search(door, loaded, "&include=metrics")
        assert {
            (row["test_name"], row["pipeline_name"], row["job_name"]): row["metrics"]
            for row in rows
        } == expected
        for status in HealthStatus:
            found = await search(door, loaded, f"&include=metrics&health_status={status.value}")
            assert found == [row for row in rows if row["metrics"]["health_status"] == status]
        for by in ("health_status", "failure_ratio", "mean_duration", "last_failure_at"):
            # The later parameter would be refused, so this is not `search`.
            target = f"{ci_path(loaded)}/search/tests?test_name=*&per_page=100&include=metrics"
            pages = await door.walk(f"{target}&sort={by}", "tests")
            found = [row for page in pages for row in page]
            assert sorted(map(repr, found)) == sorted(map(repr, rows))
            values = [place_of(row["metrics"][by]) for row in found]
            assert values == sorted(values, reverse=True)


async def test_the_groups_are_what_an_independent_script_adds_up(loaded: LoadedProject) -> None:
    project = loaded.project
    _, executions = independent_health.read_executions(project.folder, project.default_branch)
    async for door in open_door(Settings(data_dir=loaded.data_dir)):
        door.key = await door.new_key(owner="lammps")
        for by in ("pipeline", "job", "directory"):
            expected = independent_health.group_rows(executions, by)
            found = (await door.get(f"{ci_path(loaded)}/tests/groups?by={by}")).json["groups"]
            assert {group["value"]: group for group in found} == {
                value: {"value": value, **dict.fromkeys(HealthStatus, 0), **counts}
                for value, counts in expected.items()
            }
            places = [(-group["broken"], -group["flaky"]) for group in found]
            assert places == sorted(places)


def place_of(value: Any) -> tuple[bool, Any]:
    """Return the sort key of a value of a metric."""
    healths = ["healthy", "unknown", "flaky", "broken"]
    return (value is not None, healths.index(value) if value in healths else value)


async def test_the_service_says_of_every_test_what_an_independent_script_says(
    loaded: LoadedProject,
) -> None:
    project = loaded.project
    expected = independent_health.judge_folder(project.folder, project.default_branch)
    fields = list(independent_health.NOT_JUDGED)
    told: dict[str, dict[str, Any]] = {}
    async for door in open_door(Settings(data_dir=loaded.data_dir)):
        door.key = await door.new_key(owner="lammps")
        ids = {test["test_name"]: test["test_id"] for test in await search(door, loaded)}
        for name in expected:
            # The search omits tests that run on other branches only; the detail has them.
            test_id = ids.get(name) or derive_test_id(project.repository, name)
            answer = await door.get(f"{ci_path(loaded)}/tests/{test_id}")
            assert answer.json["test_name"] == name
            told[name] = {field: answer.json[field] for field in fields}
    wrong = {
        name: (told[name], expected[name]) for name in expected if told[name] != expected[name]
    }
    assert wrong == {}


async def test_what_is_broken_or_flaky_is_quarantined(regression: LoadedProject) -> None:
    async for door in open_door(Settings(data_dir=regression.data_dir)):
        door.key = await door.new_key(owner="lammps")
        answer = await door.get(f"{ci_path(regression)}/quarantines")
    found = answer.json["quarantined_tests"]
    assert Counter(each["reason"].split()[0] for each in found) == {"broken": 313, "flaky": 3}


@pytest.mark.parametrize(
    ("project", "statuses"),
    [
        (LAMMPS, {"broken": 1, "flaky": 2, "healthy": 1_121, "unknown": 4}),
        (REGRESSION, {"broken": 313, "flaky": 3, "healthy": 389, "unknown": 177}),
    ],
    ids=["lammps", "regression"],
)
def test_the_independent_script_finds_the_known_figures(
    project: Any, statuses: dict[str, int]
) -> None:
    judged = independent_health.judge_folder(project.folder, project.default_branch)
    assert Counter(each["health_status"] for each in judged.values()) == statuses


def test_the_independent_script_shares_nothing_with_the_product() -> None:
    tree = ast.parse(Path(independent_health.__file__).read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert not imported & {"service", "indexing", "tests", "lxml"}


def count_days(loaded: LoadedProject) -> dict[str, dict[str, int]]:
    """Count the figures of each day from the files; health on some days only."""
    project = loaded.project
    _, executions = independent_health.read_executions(project.folder, project.default_branch)
    figures: dict[str, Counter[str]] = defaultdict(Counter)
    for of_test in executions.values():
        jobs = defaultdict(list)
        for each in of_test:
            day = figures[independent_health.day_of(each["at"]).isoformat()]
            day["executions"] += 1
            day["failed_executions"] += each["result"] == "failed"
            day["skipped_executions"] += each["result"] == "skipped"
            if each["result"] != "skipped" and not each["machine_failed"]:
                jobs[each["job"]].append(each)
        for of_job in jobs.values():
            for first, _, verdict in independent_health.judge_commits(of_job):
                day = figures[independent_health.day_of(first).isoformat()]
                day["flaky_verdicts"] += verdict == "X"
    for date in sorted(figures)[:: len(figures) // DAYS_JUDGED]:
        counted = figures[date]
        for of_test in executions.values():
            until = [e for e in of_test if independent_health.day_of(e["at"]).isoformat() <= date]
            if until:
                counted["total_tests"] += 1
                status = independent_health.judge_test(until)["health_status"]
                counted[f"{status}_tests"] += 1
    return {date: dict(counted) for date, counted in figures.items()}


async def test_the_series_are_what_an_independent_script_counts(loaded: LoadedProject) -> None:
    expected = count_days(loaded)
    assert expected
    async for door in open_door(Settings(data_dir=loaded.data_dir)):
        door.key = await door.new_key(owner="lammps")
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for stat in set(Stat) - {Stat.MEAN_DURATION, Stat.QUARANTINED_TESTS}:
            target = f"{ci_path(loaded)}/tests/stats/{stat}"
            days = "start=2026-01-01T00:00:00Z&end=2026-12-31T00:00:00Z"
            series = (await door.get(f"{target}?{days}")).json
            for bar in series["value_over_time"]:
                date = bar["start"][:10]
                if date in expected and bar["value"]:
                    found[date][stat] = bar["value"]
                elif date not in expected and stat in OF_EXECUTIONS:
                    assert not bar["value"]
        for date, counted in expected.items():
            wanted = Stat if "total_tests" in counted else OF_EXECUTIONS
            shown = {stat: value for stat, value in found[date].items() if stat in wanted}
            assert shown == {stat: value for stat, value in counted.items() if value}, date
