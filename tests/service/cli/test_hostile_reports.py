"""Malicious reports, loaded by the command in a process whose memory is measured."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.service.cli.report import REPORT, RUN

ROOT = Path(__file__).parents[3]
MEMORY_MAX_BYTES = 200 * 1024 * 1024
# Holding it in memory would exceed the limit.
LARGE_BYTES = 256 * 1024 * 1024
# Far above the time it takes, and far below the time it would take if any cost grew as badly as it
# could.
SECONDS_MAX = 300

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
HOSTILE = {
    "deep.xml": ("<testsuite>" * 200_000 + "</testsuite>" * 200_000, "more than 256 deep"),
    "declared.xml": ("<!DOCTYPE testsuite><testsuite/>", "document type declaration"),
    "external.xml": (
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuite>&x;</testsuite>',
        "document type declaration",
    ),
    "laughs.xml": (
        f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><testsuite name="&l9;"/>',
        "document type declaration",
    ),
    "undeclared.xml": ("<testsuite>&x;</testsuite>", "Entity 'x' not defined"),
}

COMMAND = [sys.executable, "-c", "from service.cli import main; main()"]
# Runs a command and prints its peak memory. It is a process in between, because a process is
# charged with the memory of the process that it was forked from, which here is pytest.
MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(status)
"""


def write_large(path: Path, head: str, tail: str) -> None:
    """Write a file that unpacks to `LARGE_BYTES` of log lines between head and tail."""
    block = ("a line of some log\n" * 55_189)[: 1024 * 1024]
    packed = gzip.compress(block.encode(), 1)
    with path.open("wb") as stream:
        stream.write(gzip.compress(head.encode()))
        for _ in range(LARGE_BYTES // len(block)):
            stream.write(packed)
        stream.write(gzip.compress(tail.encode()))


def test_hostile_reports_cost_little_and_the_others_land(
    settings: Mapping[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for name, (document, _) in HOSTILE.items():
        (folder / name).write_text(document)
    (folder / "good.xml").write_text(REPORT)
    case = "<testsuite><testcase name='n'><system-out>"
    end = "</system-out></testcase></testsuite>"
    write_large(folder / "large.xml.gz", case, end)
    write_large(folder / "token.xml.gz", case + "<![CDATA[", "]]>" + end)

    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *COMMAND, "ingest", "junit", str(folder), *RUN],
        env={**os.environ, **settings, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    # The large text of one log is skipped; the good report has two results.
    assert "read 9, written 3, unchanged 0, refused 6" in done.stderr
    assert done.returncode == 1
    expected = {name: reason for name, (_, reason) in HOSTILE.items()}
    for name, reason in {**expected, "token.xml.gz": "a CDATA section"}.items():
        assert re.search(rf"refused: .*{name}, line \d+: .*{reason}", done.stderr)
    assert int(done.stdout) < MEMORY_MAX_BYTES
    assert "root:" not in done.stderr
