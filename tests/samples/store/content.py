"""The contents of a recorded store: a small history of two repositories, by the command line.

It contains what a migration could break: tests of every health, runs of two attempts and of pull
requests, results of other branches, an infrastructure failure, quarantines of every kind, keys of
every scope, and names outside of ASCII.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import quoteattr

# The day of the newest result; the events are those of the examples.
LAST_DAY = datetime(2026, 11, 20, 6, tzinfo=UTC)
DAYS = 12
REPOSITORY = "acme/Widgets"
EVENTS = Path(__file__).parents[3] / "examples" / "events.ndjson"
EVENTS_KEPT = 70

Run = Callable[..., str]

HEALTHY, FLAKY, BROKEN, SKIPPED, RETRIED = (
    "test_opens",
    "test_swings",
    "test_closes",
    "test_rusts",
    "test_Ünïcode [ß-🧪]",
)


def fill(run: Run, folder: Path) -> dict[str, str]:
    """Fill the store with `run`, which runs a command and returns its output; return the keys."""
    lines = EVENTS.read_text().splitlines(keepends=True)[:EVENTS_KEPT]
    events = folder / "events.ndjson"
    events.write_text("".join(lines).replace("demo/mergewatch", REPOSITORY))
    run("repository", "set", REPOSITORY, "--default-branch", "main", "--auto-quarantine", "on")
    run("repository", "set", "acme/empty", "--flaky-detection", "off")
    run("ingest", "events", str(events))
    for arguments in _reports(folder):
        run("ingest", "junit", *arguments)
    _quarantine(run)
    keys = {
        scope: run("keys", "create", "--name", scope, "--owner", "acme", "--scope", scope).strip()
        for scope in ("read", "ingest", "admin")
    }
    of_one = ("--owner", "acme", "--repository", "empty", "--scope", "read")
    keys["of one repository"] = run("keys", "create", "--name", "one", *of_one).strip()
    keys["expired"] = run(
        *("keys", "create", "--name", "old", "--owner", "acme", "--scope", "read"),
        *("--expires", "2026-01-01"),
    ).strip()
    keys["revoked"] = run(
        "keys", "create", "--name", "gone", "--owner", "acme", "--scope", "read"
    ).strip()
    (revoked,) = (line.split()[0] for line in run("keys", "list").splitlines() if " gone " in line)
    run("keys", "revoke", revoked)
    return keys


def _quarantine(run: Run) -> None:
    for name, more in (
        (f"hinge.{SKIPPED}", ("--owner", "mona", "--expires", "2099-01-01")),
        (f"hinge.{FLAKY}", ("--branch", "release-*")),
        ("hinge.never seen", ()),
    ):
        run("quarantine", "add", "--repository", REPOSITORY, "--test", name, "--reason", "x", *more)
    ended = run(
        *("quarantine", "add", "--repository", REPOSITORY),
        *("--test", f"hinge.{HEALTHY}", "--reason", "by mistake"),
    )
    run("quarantine", "remove", "--repository", REPOSITORY, ended.strip())


def _reports(folder: Path) -> Iterator[list[str]]:
    for day in range(DAYS):
        started = LAST_DAY - timedelta(days=DAYS - 1 - day)
        for job in ("unit", "unit (arm64)"):
            yield _report(folder, f"{day}", started, job=job, cases=_cases(day, job))
    started = LAST_DAY + timedelta(hours=1)
    # The second attempt of the same run, a pull request, and a run where everything failed.
    yield _report(folder, "11", started, attempt=2, cases=_cases(DAYS, "unit"))
    yield _report(folder, "p1", started, branch="hinges", pull=17, cases=_cases(DAYS, "unit"))
    names = [f"down {number}" for number in range(60)]
    yield _report(folder, "down", started, cases=[_case(name, "failure") for name in names])


def _cases(day: int, job: str) -> list[str]:
    odd = day % 2 == 1
    return [
        _case(HEALTHY),
        _case(FLAKY, "failure" if odd and job == "unit" else None),
        _case(BROKEN, "error" if day > 5 else None),
        _case(SKIPPED, "skipped"),
        _case(RETRIED, "flakyFailure" if odd else None),
    ]


def _case(name: str, outcome: str | None = None) -> str:
    inside = ""
    if outcome:
        about = f"type='Odd' message={quoteattr('no hinge <here>')}"
        inside = f"<{outcome} {about}>hinge.py:17: no hinge</{outcome}>"
    return f"<testcase classname='hinge' name={quoteattr(name)} time='0.25'>{inside}</testcase>"


def _report(
    folder: Path,
    run_id: str,
    started: datetime,
    *,
    cases: list[str],
    job: str = "unit",
    branch: str = "main",
    attempt: int = 1,
    pull: int | None = None,
) -> list[str]:
    file = folder / f"{run_id}-{attempt}-{job}.xml.gz"
    file.write_bytes(gzip.compress(f"<testsuite>{''.join(cases)}</testsuite>".encode()))
    return [
        str(file),
        *("--repository", REPOSITORY, "--branch", branch, "--commit", f"c0ffee{run_id}"),
        *("--pipeline", "ci", "--job", job, "--run-id", run_id, "--attempt", str(attempt)),
        *("--started-at", started.isoformat(), "--framework", "pytest", "--language", "python"),
        *(() if pull is None else ("--pull-request", str(pull))),
    ]
