"""The modules a process loads before it serves: only those that its settings need."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# The modules that each setting needs. No setting needs apispec; only /openapi.json does.
OPTIONAL = {
    "MERGEWATCH_INGEST=true": (
        "google.protobuf",
        "opentelemetry",
        "lxml",
        "indexing.events.parsing",
        "indexing.otlp.protobuf",
    ),
    "MERGEWATCH_RATE_LIMIT=60/minute": ("limits",),
    "MERGEWATCH_METRICS=true": ("prometheus_client",),
    "MERGEWATCH_HOST_API_URL=http://127.0.0.1:1": ("service.auth.code_host.client",),
    "MERGEWATCH_LOG_FORMAT=text": ("structlog", "rich"),
    "OTEL_TRACES_EXPORTER=console": ("opentelemetry.sdk", "service.tracing.tracing"),
    "MERGEWATCH_NOTIFICATIONS=public": ("service.notifications.sender", "standardwebhooks"),
}
# The modules of the dashboard, which is on by default, and those that only its pages need.
OF_DASHBOARD = ("jinja2", "cryptography", "service.ui.routes")
OF_PAGES = ("jinja2", "cryptography", "service.ui.pages.overview")
NEVER = ("apispec", "redis", "elastic_transport", "elasticsearch")

# Runs `mergewatch serve`, waits for the modules named, checks its readiness, and prints the modules
# loaded. The first argument says when pages are loaded.
CODE = """
import os, re, signal, sys, threading, time, urllib.request
from service.cli import main
from service.server import process

process.PAGES_AFTER_SECONDS = float(sys.argv[1])

ended, log = os.pipe()
os.dup2(log, 2)

def ask():
    with os.fdopen(ended) as lines:
        url = next(found[0] for line in lines if (found := re.search(r"http://[0-9.:]+", line)))
    while not sys.modules.keys() >= {*sys.argv[2:]}:
        time.sleep(0.01)
    loaded = sorted(sys.modules)
    with urllib.request.urlopen(url + "/health/ready") as answer:
        print(answer.status, *loaded, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=ask).start()
main(["serve", "--port", "0"])
"""


def load(
    folder: Path, *settings: str, pages_after: float = 3_600, wait_for: Sequence[str] = ()
) -> set[str]:
    """Return the modules that a process with these settings has loaded when it is ready."""
    ours = ("MERGEWATCH_", "OTEL_")
    unset = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    given = dict(setting.split("=", 1) for setting in settings)
    served = subprocess.run(
        [sys.executable, "-c", CODE, str(pages_after), *wait_for],
        capture_output=True,
        text=True,
        check=True,
        env={**unset, **given, "MERGEWATCH_DATA_DIR": str(folder)},
        timeout=60,
    )
    status, *loaded = served.stdout.split()
    assert status == "200"
    return set(loaded)


def test_a_process_without_settings_loads_nothing_that_only_settings_need(tmp_path: Path) -> None:
    heavy = {name for names in OPTIONAL.values() for name in names}
    assert not load(tmp_path) & {*heavy, *NEVER, *OF_PAGES}


def test_what_a_setting_needs_is_loaded_before_the_first_request(tmp_path: Path) -> None:
    heavy = {name for names in OPTIONAL.values() for name in names}
    loaded = load(tmp_path, *OPTIONAL)
    assert heavy <= loaded
    assert not loaded & {*NEVER}


def test_pages_are_loaded_without_a_request(tmp_path: Path) -> None:
    assert load(tmp_path, pages_after=0, wait_for=OF_PAGES) >= {*OF_PAGES}


def test_a_process_without_the_dashboard_loads_nothing_of_it(tmp_path: Path) -> None:
    assert not load(tmp_path, "MERGEWATCH_UI=false") & {*OF_DASHBOARD}
