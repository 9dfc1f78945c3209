"""The health of every test in a folder of reports, computed a second time.

A plain script over a manifest and its files, using only the standard library: it shares no code
with the product, so a mistake would have to be made twice. It follows the rules as they are written
in words, with their numbers, and is slow. `python tests/independent_health.py FOLDER BRANCH` prints
the counts.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

ATTEMPTS_BEFORE = {"flakyFailure", "flakyError", "rerunFailure", "rerunError"}
VERDICTS = {"P": "passed", "F": "failed", "X": "flaky"}
NOT_JUDGED = {
    "health_status": "unknown",
    "last_conclusion": "unknown",
    "failure_ratio": 0.0,
    "flakiness_ratio": 0.0,
    "success_ratio": 0.0,
    "first_failure_at": None,
    "first_failure_commit": None,
    "last_failure_at": None,
    "last_success_at": None,
}


def read_cases(path: Path) -> list[ET.Element]:
    with gzip.open(path) as stream:
        root = ET.parse(stream).getroot()  # noqa: S314 - a sample of this repository
    return list(root.iter("testcase"))


def read_results(path: Path) -> list[tuple[str, str]]:
    """The name of each case, and passed, failed, skipped or retried."""
    results = []
    for case in read_cases(path):
        name = case.get("name") or ""
        if case.get("classname"):
            name = f"{case.get('classname')}.{name}"
        inside = {child.tag for child in case}
        if "failure" in inside or "error" in inside:
            results.append((name, "failed"))
        elif "skipped" in inside or case.get("status") in ("notrun", "disabled", "skipped"):
            results.append((name, "skipped"))
        elif inside & ATTEMPTS_BEFORE:
            results.append((name, "retried"))
        else:
            results.append((name, "passed"))
    return results


@cache
def read_executions(folder: Path, branch: str) -> tuple[set[str], dict[str, list[dict[str, Any]]]]:
    """The names of all tests, and the executions of each on that branch; callers share them."""
    names: set[str] = set()
    executions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with (folder / "manifest.csv").open(newline="") as manifest:
        for row in csv.DictReader(manifest):
            results = read_results(folder / row["file"])
            names.update(name for name, _ in results)
            if row["branch"] != branch:
                continue
            failed = sum(result == "failed" for _, result in results)
            ran = sum(result != "skipped" for _, result in results)
            times = [case.get("time") for case in read_cases(folder / row["file"])]
            for (name, result), time in zip(results, times, strict=True):
                executions[name].append(
                    {
                        "result": result,
                        "job": (row["pipeline_name"], row["job_name"]),
                        "commit": row["commit"],
                        "at": datetime.fromisoformat(row["started_at"]),
                        "duration": None if time is None else float(time),
                        # More than four fifths of at least twenty.
                        "machine_failed": ran >= 20 and failed * 5 > ran * 4,
                    }
                )
    return names, executions


def judge_test(executions: list[dict[str, Any]]) -> dict[str, Any]:
    """The expected health of a test with these executions, at least one."""
    newest = max(each["at"] for each in executions)
    # If several are the newest, the one that needs attention.
    newest_results = {each["result"] for each in executions if each["at"] == newest}
    last_conclusion = "skipped"
    if "failed" in newest_results:
        last_conclusion = "failed"
    elif newest_results & {"passed", "retried"}:
        last_conclusion = "passed"

    failures = sorted(
        (each["at"], each["commit"]) for each in executions if each["result"] == "failed"
    )
    successes = [each["at"] for each in executions if each["result"] in ("passed", "retried")]

    first_day = newest.astimezone(UTC).date() - timedelta(days=29)
    evidence = [
        each for each in executions if not each["machine_failed"] and each["result"] != "skipped"
    ]
    counted = [each for each in evidence if day_of(each["at"]) >= first_day]
    older = [each for each in evidence if day_of(each["at"]) < first_day]
    sequences = []
    for job in {each["job"] for each in counted}:
        of_job = [each for each in counted if each["job"] == job]
        commits = {each["commit"] for each in of_job}
        before = [each for each in older if each["job"] == job and each["commit"] not in commits]
        last = max(each["at"] for each in of_job)
        sequences.append((last, judge_commits(of_job), judge_commits(before)))

    letters = "".join(verdict for _, sequence, _ in sequences for _, _, verdict in sequence)
    failed = sum(each["result"] == "failed" for each in counted)
    statuses = {
        judge_sequence(sequence, before)
        for last, sequence, before in sequences
        if last >= newest - timedelta(days=8)
    }
    status = "unknown"
    for better in ("healthy", "flaky", "broken"):
        if better in statuses:
            status = better
    return {
        "health_status": status,
        "last_conclusion": last_conclusion,
        "failure_ratio": failed / len(counted) if counted else 0.0,
        "flakiness_ratio": letters.count("X") / len(letters) if letters else 0.0,
        "success_ratio": (len(counted) - failed) / len(counted) if counted else 0.0,
        "first_failure_at": write_time(failures[0][0]) if failures else None,
        "first_failure_commit": failures[0][1] if failures else None,
        "last_failure_at": write_time(failures[-1][0]) if failures else None,
        "last_success_at": write_time(max(successes)) if successes else None,
    }


def measure_rows(
    executions: list[dict[str, Any]], *, flaky_detection: bool = True
) -> dict[tuple[str, str], dict[str, Any]]:
    """By pipeline and job, the expected metrics of a test with these executions, at least one."""
    newest = max(each["at"] for each in executions)
    first_day = day_of(newest) - timedelta(days=29)
    found = {}
    for job in {each["job"] for each in executions}:
        of_job = [each for each in executions if each["job"] == job]
        window = [each for each in of_job if day_of(each["at"]) >= first_day]
        evidence = [
            each for each in of_job if not each["machine_failed"] and each["result"] != "skipped"
        ]
        counted = [each for each in evidence if day_of(each["at"]) >= first_day]
        commits = {each["commit"] for each in counted}
        before = [
            each
            for each in evidence
            if day_of(each["at"]) < first_day and each["commit"] not in commits
        ]
        verdicts = judge_commits(counted)
        letters = [letter for _, _, letter in verdicts]
        status = "unknown"
        if counted and max(each["at"] for each in counted) >= newest - timedelta(days=8):
            status = judge_sequence(verdicts, judge_commits(before))
        if status == "flaky" and not flaky_detection:
            status = "healthy"
        failures = [each["at"] for each in window if each["result"] == "failed"]
        durations = [round(d * 1e6) for each in window if (d := each["duration"]) is not None]
        failed = sum(each["result"] == "failed" for each in counted)
        found[job] = {
            "health_status": status,
            "executions_count": len(window),
            "failed_executions_count": len(failures),
            "failure_ratio": failed / len(counted) if counted else 0.0,
            "flakiness_ratio": letters.count("X") / len(letters) if letters else 0.0,
            "mean_duration": round(sum(durations) / len(durations) / 1e6, 6) if durations else None,
            "last_execution_at": max((each["at"] for each in window), default=None),
            "last_failure_at": max(failures, default=None),
            "latest_verdicts": [VERDICTS[letter] for letter in letters[-20:]],
        }
    return found


def group_rows(
    executions: dict[str, list[dict[str, Any]]], by: str
) -> dict[str | None, dict[str, int]]:
    """The expected groups of tests with these executions, by pipeline, job or directory."""
    found: dict[str | None, dict[str, int]] = defaultdict(Counter)
    for name, of_test in executions.items():
        healths = defaultdict(set)
        for (pipeline, job), metrics in measure_rows(of_test).items():
            # These reports name no files: the names of tests begin with a directory, if any.
            directory = name.rpartition("/")[0] or None
            value = {"pipeline": pipeline, "job": job, "directory": directory}[by]
            healths[value].add(metrics["health_status"])
            for count in ("executions_count", "failed_executions_count"):
                found[value][count] += metrics[count]
        for value, statuses in healths.items():
            worst = min(statuses, key=["broken", "flaky", "healthy", "unknown"].index)
            found[value]["tests"] += 1
            found[value][worst] += 1
    return found


def judge_commits(executions: list[dict[str, Any]]) -> list[tuple[datetime, str, str]]:
    """The verdicts of one job, in order, each with its first time: P, F, or X for flaky."""
    commits: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in executions:
        commits[each["commit"]].append(each)
    verdicts = []
    for commit, on_it in commits.items():
        results = {each["result"] for each in on_it}
        if results == {"passed"}:
            verdict = "P"
        elif results == {"failed"}:
            verdict = "F"
        else:
            verdict = "X"
        verdicts.append((min(each["at"] for each in on_it), commit, verdict))
    return sorted(verdicts)


def judge_sequence(
    sequence: list[tuple[datetime, str, str]], before: list[tuple[datetime, str, str]]
) -> str:
    """The status of a job with these verdicts in the window, and those before it."""
    letters = "".join(letter for _, _, letter in sequence)
    if letters.endswith("FFF") or set(letters) == {"F"}:
        return "broken"
    if letters.endswith("F") and letters[-10:].count("F") >= 8:
        return "broken"
    days = [day_of(at) for at, _, _ in sequence]
    if len(days) >= 10 * len(set(days)):
        return "flaky" if is_flaky_by_days(days, letters, before) else "healthy"
    if "X" in letters or letters.replace("X", "")[-20:].count("PF") >= 2:
        return "flaky"
    return "healthy"


def is_flaky_by_days(
    days: list[date], letters: str, before: list[tuple[datetime, str, str]]
) -> bool:
    """The rule for at least ten verdicts a day."""
    alone = {at for at, letter in enumerate(letters) if letter == "X"}
    row = [(-1, letter) for _, _, letter in before if letter != "X"][-1:]
    row += [(at, letter) for at, letter in enumerate(letters) if letter != "X"]
    for (_, left), (at, middle), (_, right) in zip(row, row[1:], row[2:], strict=False):
        if left == right != middle and at >= 0:
            alone.add(at)
    events = {days[at] for at in alone}
    near = {days[at] for at in alone if at >= len(letters) - 20}
    if len(events) < 3 and len(near) < 2:
        return False
    active = {day for day in days if day <= max(events)}
    last_bad = max(day for day, letter in zip(days, letters, strict=True) if letter != "P")
    quiet = {day for day in days if day > last_bad}
    return len(quiet) < 5 * len(active) / len(events)


def day_of(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


def write_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def judge_folder(folder: Path, branch: str) -> dict[str, dict[str, Any]]:
    """By name, the expected health of every test of the folder."""
    names, executions = read_executions(folder, branch)
    return {
        name: judge_test(executions[name]) if name in executions else NOT_JUDGED for name in names
    }


if __name__ == "__main__":
    judged = judge_folder(Path(sys.argv[1]), sys.argv[2]).values()
    print(Counter(each["health_status"] for each in judged))  # noqa: T201 - a script's answer
