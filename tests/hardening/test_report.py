"""The page with the results of `make harden`."""

from __future__ import annotations

from pathlib import Path

from hardening import report
from hardening.findings import Finding, percentile
from hardening.suite import SCENARIOS

GOOD = Finding("cursors", "0 of 10 | all", "0", holds=True)
BAD = Finding("overload", "70 %", "80 %", holds=False, cause="one core")


def test_a_page_says_what_does_not_hold_and_why(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    report.write({"one": [GOOD], "other": [BAD]}, page)
    written = page.read_text(encoding="utf-8")
    assert "1 of 2 requirements hold" in written
    assert "| one | cursors | 0 of 10 \\| all | 0 | yes |" in written
    assert "| other | overload | 70 % | 80 % | **no** |" in written
    assert "one core" in written


def test_findings_are_kept_until_the_scenario_runs_again(tmp_path: Path) -> None:
    for findings in ([BAD], [GOOD, BAD]):
        report.keep(tmp_path, "overload", findings)
        assert report.read_kept(tmp_path, SCENARIOS) == {"overload": findings}


def test_a_percentile_is_one_of_the_values() -> None:
    values = [number / 100 for number in range(100, 0, -1)]
    assert percentile(values, 0.5) == 0.51
    assert percentile(values, 0.99) == 1.0
    assert percentile([], 0.99) == 0
