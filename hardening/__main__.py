"""`python -m hardening [NAME...]`: runs scenarios, prints findings, fails if one does not hold."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import uvloop

from hardening import report
from hardening.findings import Finding
from hardening.harness import ROOT, Harness
from hardening.suite import SCENARIOS

_FOLDER = ROOT / ".hardening"


async def run(harness: Harness, names: Sequence[str], results: Path) -> dict[str, list[Finding]]:
    """Run the scenarios with these names in sequence; return the findings of each."""
    findings: dict[str, list[Finding]] = {}
    try:
        for name in names:
            began = time.monotonic()
            try:
                findings[name] = await SCENARIOS[name](harness)
            except Exception as error:  # noqa: BLE001 - the other scenarios still run
                traceback.print_exc()
                cause = f"{type(error).__name__}: {error}".splitlines()[0]
                findings[name] = [
                    Finding(name, "did not finish", "a finished run", holds=False, cause=cause)
                ]
            report.keep(results, name, findings[name])
            for finding in findings[name]:
                print(f"{name}: {finding}", file=sys.stderr, flush=True)
            print(f"  ({name} took {time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    finally:
        harness.close()
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m hardening", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--folder", type=Path, default=_FOLDER)
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(SCENARIOS)):
        parser.error(f"no scenario is called {', '.join(unknown)}")
    if not given.names:
        shutil.rmtree(given.folder, ignore_errors=True)
    # Single runs keep their folders side by side, so that the credential search covers all of them.
    harness = Harness(given.folder / "harness" / str(os.getpid()))
    results = given.folder / "results"
    findings = uvloop.run(run(harness, given.names or list(SCENARIOS), results))
    # With another folder, the page goes there too, so a trial run does not overwrite the project's
    # page.
    page = report.PAGE if given.folder == _FOLDER else given.folder / report.PAGE.name
    report.write(report.read_kept(results, SCENARIOS), page)
    for name, each in findings.items():
        for finding in each:
            print(f"{name}: {finding}")
    sys.exit(not all(finding.holds for each in findings.values() for finding in each))


if __name__ == "__main__":
    main()
