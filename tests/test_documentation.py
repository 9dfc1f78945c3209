"""The statements in the documents, checked against the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from indexing.health import thresholds
from indexing.health.explanation import Rule
from indexing.health.sequences import KEPT_VERDICTS
from indexing.health.thresholds import (
    ALONE_DAYS,
    BROKEN_FAILED_IN_SPAN,
    BROKEN_SPAN,
    BROKEN_STREAK,
    DENSE_VERDICTS_A_DAY,
    FLAKY_FALLS,
    FLAKY_SPAN,
    INFRASTRUCTURE_FAILED_PERCENT,
    INFRASTRUCTURE_MIN_RESULTS,
    JUDGED_JOBS,
    LIVE_FOR,
    MENDED_GAPS,
    NEAR_DAYS,
    NEAR_SPAN,
    RECOVERY_VERDICTS,
    WINDOW,
)
from indexing.models.repositories import MAX_QUARANTINE_AFTER
from service.auth.code_host.access import MAX_CONCURRENT_REQUESTS, MAX_CONCURRENT_UNKNOWN
from service.auth.code_host.client import TOTAL_SECONDS
from service.auth.code_host.decisions import (
    GRANT_LIFETIME,
    MAX_WAIT_SECONDS,
    MIN_WAIT_SECONDS,
    OUTAGE_LIFETIME,
    REFUSAL_LIFETIME,
)
from service.cli.commands import COMMANDS
from service.config.settings import DECLARATIONS
from service.http.problems import TITLES
from service.ingest.limiter import (
    BODY_SECONDS,
    MAX_HELD_BYTES,
    MAX_HELD_BYTES_PER_SENDER,
    SMALL_AT_ONCE,
    SMALL_AT_ONCE_PER_SENDER,
)
from service.middleware.fair_queue import MAX_RUNNING, MAX_RUNNING_PER_TENANT
from service.schemas.limits import MAX_GLOB_COST
from service.server.process import KEEPALIVE_SECONDS
from service.server.protocol import HEAD_SECONDS, SEND_SECONDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_setting_is_documented_as_it_is_declared() -> None:
    settings = read("docs/settings.md")
    rows = re.findall(r"^\| `(MERGEWATCH_\w+)` \| (.+?) \| (.+) \|$", settings, re.MULTILINE)
    assert [(name, default.strip("`"), text) for name, default, text in rows] == [
        (declared.variable, declared.default, declared.description) for declared in DECLARATIONS
    ]


@pytest.mark.parametrize(("document", "words"), [("README.md", 900), ("ARCHITECTURE.md", 1_300)])
def test_the_pages_that_everybody_reads_are_short(document: str, words: int) -> None:
    assert len(read(document).split()) <= words


def test_the_readme_names_every_command() -> None:
    assert [name for name in COMMANDS if f"`{name}`" not in README] == []


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"))
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_a_document_names_is_there(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_make_lists_every_target() -> None:
    targets = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)
    described = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE)
    assert described == targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_files_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    named = re.findall(r"`((?:service|indexing|tests|examples|deploy)/[\w./]+)`", text)
    folder = (ROOT / document).parent
    missing = [name for name in linked if not (folder / name).exists()]
    assert missing + [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_that_a_document_places_in_a_module_are_declared_there(document: str) -> None:
    """As in: `Reader` and `Writer` in `indexing/store/interface.py`."""
    text = " ".join(read(document).split())
    named = re.findall(r"((?:`\w+`(?:, | and ))*`\w+`) (?:in|of) `([\w/]+\.py)`", text)
    missing = [
        f"{name} in {path}"
        for names, path in named
        for name in re.findall(r"\w+", names.replace(" and ", " "))
        if not is_declared(name, path)
    ]
    assert missing == []


def is_declared(name: str, path: str) -> bool:
    """`path` is the path of a module, or the end of one."""
    declares = re.compile(rf"^\s*(?:(?:async )?def |class )?{name}\b\s*[(:=\[]", re.MULTILINE)
    folders = ("service", "indexing", "mergewatch", "tests")
    modules = [
        module
        for folder in folders
        for module in (ROOT / folder).rglob(Path(path).name)
        if module.as_posix().endswith(f"/{path}")
    ]
    return any(declares.search(module.read_text(encoding="utf-8")) for module in modules)


# The sentences of docs/health.md with a threshold, with its value from the code.
HEALTH_SENTENCES = (
    f"the {WINDOW.days} UTC days that end with the day of the test's newest execution",
    f"at most {LIVE_FOR.days} days older than the test's newest execution",
    f"newest {BROKEN_STREAK} verdicts failed",
    f"at least {BROKEN_FAILED_IN_SPAN} of the newest {BROKEN_SPAN} did",
    f"at least {FLAKY_FALLS} changes from pass to fail among its newest {FLAKY_SPAN} verdicts",
    f"at least {INFRASTRUCTURE_MIN_RESULTS} passed and failed tests of which more than",
    f"of which more than {INFRASTRUCTURE_FAILED_PERCENT} % failed",
    f"at most {JUDGED_JOBS:,} pairs of pipeline and job",
    f"at least {RECOVERY_VERDICTS} verdicts since the quarantine began",
    f"with at least {DENSE_VERDICTS_A_DAY} verdicts for each day of the window that has one",
    f"on at least {ALONE_DAYS} days of the window",
    f"on at least {NEAR_DAYS} days of its newest {NEAR_SPAN} verdicts",
    f"no failure for {MENDED_GAPS} times as long as it took from one such day to the next",
    f"(0 to {MAX_QUARANTINE_AFTER}, 0 by default)",
    # The diagram has a shorter form.
    f"Window: the {WINDOW.days} UTC days",
    f"at most {LIVE_FOR.days} days older than the test's newest?",
    f"Newest {BROKEN_STREAK} failed, or the newest",
    f"or the newest and {BROKEN_FAILED_IN_SPAN} of the newest {BROKEN_SPAN}?",
    f"At least {DENSE_VERDICTS_A_DAY} verdicts a day?",
    f"Results that stood alone on {ALONE_DAYS} days",
    f"A flaky verdict, or {FLAKY_FALLS} changes from pass to fail in the newest {FLAKY_SPAN}?",
)


# The same for docs/authentication.md, docs/api.md and SECURITY.md.
BOUNDS = (
    f"| access | {GRANT_LIFETIME.seconds} seconds |",
    f"| a refusal | {REFUSAL_LIFETIME.seconds} seconds |",
    f"up to {OUTAGE_LIFETIME.seconds // 60} minutes since the host last granted it",
    f"nothing for {TOTAL_SECONDS} seconds",
    f"`Retry-After`, {MIN_WAIT_SECONDS} to {MAX_WAIT_SECONDS} seconds",
    f"at most {MAX_CONCURRENT_REQUESTS} in all, {MAX_CONCURRENT_UNKNOWN} of them",
    f"{MAX_GLOB_COST} wildcards a request",
    f"`latest_verdicts` are the newest {KEPT_VERDICTS}, oldest first",
    f"{HEAD_SECONDS:.0f} seconds for a request's head, {SEND_SECONDS:.0f} for a body",
    f"{BODY_SECONDS:.0f} for a body and for a reader that stopped",
    f"that stopped, {KEEPALIVE_SECONDS:.0f} for an idle connection",
    f"at most {MAX_RUNNING_PER_TENANT} of the {MAX_RUNNING} requests in progress in a process",
)


@pytest.mark.parametrize("words", BOUNDS)
def test_bounds_in_words_have_the_numbers_of_the_code(words: str) -> None:
    texts = map(read, ("docs/authentication.md", "docs/api.md", "SECURITY.md"))
    assert any(words in " ".join(text.split()) for text in texts)


def test_one_sender_may_have_half_of_what_uploads_share() -> None:
    assert "half of the slots and buffered bytes of uploads for one sender" in read("SECURITY.md")
    assert SMALL_AT_ONCE_PER_SENDER * 2 == SMALL_AT_ONCE
    assert MAX_HELD_BYTES_PER_SENDER * 2 == MAX_HELD_BYTES


def test_the_statuses_of_all_problems_are_documented() -> None:
    section = read("docs/api.md").partition("## Errors")[2].partition("## ")[0]
    assert [int(status) for status in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == [
        *TITLES
    ]


def test_what_a_503_says_is_documented() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "service").rglob("*.py"))
    said = re.findall(r'\bunavailable\(\s*"([^"]+)"', "".join(sources))
    documented = read("docs/operations.md").partition("### What a 503 says")[2]
    assert "server overloaded, retry later" in said
    assert [detail for detail in said if f"`{detail}`" not in documented] == []


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("sentence", HEALTH_SENTENCES)
def test_the_rules_in_words_have_the_numbers_of_the_code(sentence: str) -> None:
    words = (ROOT / "docs" / "health.md").read_text(encoding="utf-8").replace("<br/>", " ")
    assert sentence in " ".join(words.split())


def test_every_threshold_stands_in_the_rules_in_words() -> None:
    named = [name for name in vars(thresholds) if name.isupper()]
    source = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in named if f"{{{name}" not in source] == []


def test_the_rules_of_health_are_listed_by_name() -> None:
    listed = re.findall(r"^\| (`[a-z_`, ]+) \|", read("docs/health.md"), re.MULTILINE)
    names = {name for row in listed for name in re.findall(r"`([a-z_]+)`", row)}
    assert {rule.value for rule in Rule} <= names


def test_every_alert_is_explained() -> None:
    alerts = re.findall(r"- alert: (\w+)", read("deploy/prometheus/alerts.yml"))
    rows = re.findall(r"^\| (`Mergewatch.+?) \|", read("docs/operations.md"), re.MULTILINE)
    assert re.findall(r"`(\w+)`", "".join(rows)) == alerts


def test_every_line_of_the_log_that_needs_somebody_is_explained() -> None:
    section = read("docs/operations.md").partition("### The log\n")[2].partition("\n## ")[0]
    documented = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\|.+$", section, re.MULTILINE)))
    beginnings = tuple(text.removesuffix("…") for text in documented if text.endswith(" …"))
    logged = {
        call.args[0].value
        for package in ("service", "indexing")
        for path in (ROOT / package).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"error", "exception"}
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id.endswith("log")
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }
    assert len(logged) > 15
    unexplained = logged - set(documented)
    assert not [text for text in unexplained if not text.startswith(beginnings)]
