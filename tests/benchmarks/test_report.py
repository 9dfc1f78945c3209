"""The written results: tables, the page, the charts, and the kept results."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from benchmarks.keeping import read_results, write_results
from benchmarks.report import charts, tables
from benchmarks.report.document import Setting, write_document
from benchmarks.results import (
    CachedShare,
    Cost,
    Flood,
    Loaders,
    Memory,
    ProfiledSubject,
    Rebuild,
    Results,
    Scaling,
    Speed,
    Subject,
)
from benchmarks.running.profile import Profile, Share
from benchmarks.targets import judge
from tests.benchmarks.figures import OURS, THEIRS, figure_of

RESULTS = Results(
    figures=(
        figure_of([(8_000, 10_000)]),
        figure_of([(2_000, 10_000)], stack=THEIRS),
        figure_of([(1_000, 10_000)], operation="glob-rare", repeated=False),
        figure_of([(500, 9_000)], operation="glob-rare", repeated=False, connections=1),
        figure_of([(9_000, 20_000)], workers=2),
    ),
    flood=Flood((0.002,), (0.004,), 123),
    memory=Memory(2_000, tuple(2**20 * (90 + at) for at in range(20))),
    workers=(Scaling("detail", True, 0.0001, 0.00011, 1.82),),
    costs=(
        Cost("all events", "event page of 10", 1_000, 4.0, 0.001),
        Cost("all events", "event page of 10", 10_000, 4.5, 0.0011),
    ),
    speeds=(
        Speed("events", "reading and checking alone", 20_000),
        Speed("events", "into SQLite", 15_000),
    ),
    rebuilds=(Rebuild("into SQLite", 30, 10_000, 2_100.0, 90, 0.0125),),
    loaders=(Loaders("into SQLite", 4, 40, 4_000.0, 3_800.0),),
    cached_shares=(CachedShare("into SQLite", 2_000, 10, 31),),
    reports_ratio=1.8,
    hottest=(
        ProfiledSubject(
            Subject("detail", OURS, repeated=True),
            Profile((Share("write in aiohttp/http_writer.py", 0.38),), (Share("answer", 0.7),)),
        ),
    ),
    failures=("detail, some stack: 3 errors",),
    dates={"throughput": "2026-11-21"},
)


def write() -> str:
    setting = Setting("make bench", "2 cores", "Python 3", "a million tests")
    subject = Subject("detail", OURS, repeated=True)
    profile = Profile((Share("dump in marshmallow/schema.py", 0.42),), ())
    return write_document(setting, RESULTS, judge(RESULTS), [ProfiledSubject(subject, profile)])


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The first table below a heading, cell by cell."""
    below = page.partition(f"## {heading}\n")[2].splitlines()
    start = next(at for at, line in enumerate(below) if line.startswith("|"))
    rows = []
    for line in below[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_rates_stand_with_their_ratios() -> None:
    assert rows_of(write(), "Requests a second, one worker, cached") == [
        ["operation", OURS, THEIRS],
        ["---", "---:", "---:"],
        ["test detail", "8,000 (0.800)", "2,000 (0.200)"],
    ]


def test_two_workers_and_one_client_have_tables_of_their_own() -> None:
    page = write()
    assert rows_of(page, "Requests a second, 2 workers, cached")[2][1] == "9,000 (0.450)"
    assert rows_of(page, "One client alone")[2][2:] == ["1 ms", "2 ms"]
    assert "500 (" not in page


def test_the_page_says_of_each_target_whether_it_holds() -> None:
    found = {row[0]: row[1:] for row in rows_of(write(), "Targets")}
    assert found["test detail, mergewatch, SQLite, of the floor"] == ["≥ 0.8", "0.800", "holds"]
    assert found["test detail, times FastAPI, SQLite"] == ["≥ 2", "4.000", "holds"]
    assert found["test detail, mergewatch, SQLite, Redis, of the floor"][-1] == "not measured"


def test_what_has_no_figure_and_what_dominates_are_on_the_page() -> None:
    page = write()
    assert "- detail, some stack: 3 errors" in page
    assert "| `dump in marshmallow/schema.py` | 42% |" in page
    assert "| `write in aiohttp/http_writer.py` | 38% |" in page


def test_memory_is_shown_at_each_tenth() -> None:
    rows = rows_of(write(), "Memory of one worker")
    assert rows[0][1:3] == ["200", "400"]
    assert rows[2][1:3] == ["91", "93"]
    assert rows[0][-1] == "2,000"


def test_two_workers_are_compared_by_the_cpu_time_of_a_request() -> None:
    page = write()
    assert rows_of(page, "Two workers")[2] == ["test detail, cached", "100 µs", "110 µs", "1.82"]
    found = {row[0]: row[1:] for row in rows_of(page, "Targets")}
    text = "test detail, cached, two workers with a core each, times one"
    assert found[text] == ["≥ 1.7", "1.820", "holds"]


def test_a_speed_stands_against_the_first_of_its_kind() -> None:
    assert rows_of(write(), "Loading")[3] == ["events, into SQLite", "15,000", "0.75"]


def test_a_rebuild_stands_with_the_slowest_read_meanwhile() -> None:
    found = ["SQLite", "10,000", "30", "2,100", "90", "12 ms"]
    assert rows_of(write(), "Rebuilds")[2] == found


def test_several_loaders_stand_against_one() -> None:
    page = write()
    assert rows_of(page, "Several loaders")[0][2] == "4 loaders"
    assert rows_of(page, "Several loaders")[2] == ["into SQLite", "4,000", "3,800", "0.95"]


def test_the_share_from_the_cache_stands_with_its_requests() -> None:
    row = rows_of(write(), "Cached answers during loads")[2]
    assert row == ["into SQLite", "31", "2,000", "99.5%"]


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert tables.table(["a|b"], [["c"]]).splitlines()[0] == "| a\\|b |"


def test_kept_results_come_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "results.json"
    assert read_results(path) == Results()
    write_results(path, RESULTS)
    assert read_results(path) == RESULTS


SVG = "{http://www.w3.org/2000/svg}"


def read(drawing: str) -> etree._Element:
    return etree.fromstring(drawing.encode())


def test_bars_are_as_long_as_their_powers_of_ten() -> None:
    drawn = read(charts.bars("ratios", {"detail": {"a": 1.0, "b": 0.1, "c": 0.01}}))
    bars = [float(r.attrib["width"]) for r in drawn.iter(f"{SVG}rect") if r.get("x") == "300.0"]
    assert bars == pytest.approx([560, 280, 1])


def test_bars_of_ones_fill_the_width() -> None:
    drawn = read(charts.bars("ratios", {"detail": {"a": 1.0}}))
    (bar,) = [r for r in drawn.iter(f"{SVG}rect") if r.get("x") == "300.0"]
    assert float(bar.attrib["width"]) == pytest.approx(560)


def test_names_are_escaped_in_a_chart() -> None:
    drawn = read(charts.bars("a < b & c", {"<x>": {"&": 0.5}}))
    words = [element.text for element in drawn.iter(f"{SVG}text")]
    assert {"a < b & c", "<x>", "&"} <= set(words)


def test_a_flat_cost_is_a_level_line() -> None:
    series = {"flat": [(10.0, 2.0), (1_000.0, 2.0)], "grows": [(10.0, 1.0), (1_000.0, 100.0)]}
    drawn = read(charts.lines("costs", series, "ms"))
    flat, grows = (str(line.attrib["points"]).split() for line in drawn.iter(f"{SVG}polyline"))
    assert flat[0].split(",")[1] == flat[1].split(",")[1]
    assert float(grows[0].split(",")[1]) > float(grows[1].split(",")[1])


@pytest.mark.parametrize("series", [{"one": [(10.0, 1.0)]}, {"one": [(5.0, 0.5), (50.0, 0.5)]}])
def test_a_chart_can_be_drawn_of_hardly_anything(
    series: dict[str, list[tuple[float, float]]],
) -> None:
    assert read(charts.lines("costs", series, "ms")).tag == f"{SVG}svg"
