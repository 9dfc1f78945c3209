"""Report files loaded into a real store: what is stored, what is refused, what a rerun changes."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from indexing.ingest import report_files
from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import (
    BATCH_EXECUTIONS,
    Refusal,
    ReportRequest,
    check_run,
    ingest_reports,
)
from indexing.ingest.report_files import ReportFile
from indexing.junit.cases import ReportError
from indexing.models.executions import Run
from indexing.store.interface import Store
from indexing.timestamps import format_timestamp
from tests.builders import NOON, WIDGETS, after, make_run
from tests.indexing.ingest.reports import (
    REPORT,
    count_of,
    find,
    ingest,
    request_for,
    write_report,
)

# A folder of most Linux systems whose file system stores any time.
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the tests make a folder of their own there


async def test_a_report_is_written_once_and_unchanged_ever_after(
    store: Store, folder: Path
) -> None:
    path = write_report(folder / "a.xml", "one", "two", "two")
    count, _ = await ingest(store, request_for(path))
    assert count == IngestCount(read=3, written=3)
    count, _ = await ingest(store, request_for(path))
    assert count == IngestCount(read=3, unchanged=3)
    assert await count_of(store, "two") == 2


async def test_a_packed_report_is_the_same_report(store: Store, folder: Path) -> None:
    path = write_report(folder / "a.xml", "one", "two")
    packed = folder / "a.xml.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    misnamed = folder / "b.xml"
    misnamed.write_bytes(packed.read_bytes())
    await ingest(store, request_for(path))
    count, _ = await ingest(store, request_for(packed), request_for(misnamed))
    assert count == IngestCount(read=4, unchanged=4)


async def test_runs_attempts_and_shards_are_distinguished(store: Store, folder: Path) -> None:
    shard = write_report(folder / "1.xml", "one")
    other = write_report(folder / "2.xml", "one", "two")
    await ingest(
        store,
        request_for(shard),
        request_for(other),
        request_for(shard, make_run(attempt=2)),
        request_for(shard, make_run("2")),
    )
    assert await count_of(store, "one") == 4


async def test_a_refused_case_leaves_the_ordinals_of_the_others(store: Store, folder: Path) -> None:
    path = folder / "a.xml"
    path.write_text(REPORT.format('\n<testcase/><testcase name="n"/><testcase name="n"/>'))
    count, refused = await ingest(store, request_for(path))
    assert count == IngestCount(read=3, written=2, refused=1)
    assert refused == [Refusal(str(path), 2, "the name of a test must not be empty")]
    assert [ordinal for _, ordinal in ReportFile.examine(path).read_cases()] == [0, 0, 1]


async def test_a_report_that_breaks_off_leaves_nothing(store: Store, folder: Path) -> None:
    names = [f"test {number}" for number in range(BATCH_EXECUTIONS * 2)]
    path = write_report(folder / "a.xml", *names)
    path.write_text(path.read_text().removesuffix("</testsuite>"))
    count, (refusal,) = await ingest(store, request_for(path))
    assert count == IngestCount(read=1, refused=1)
    assert refusal.line == len(names) + 1
    assert "not well-formed" in refusal.reason
    assert (await store.get_status(NOON)).executions == 0


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["SMALL_REPORT_BYTES", "KEPT_CASES", None])
async def test_a_report_too_large_for_memory_comes_out_the_same(
    store: Store, folder: Path, limit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit is not None:
        monkeypatch.setattr(report_files, limit, 0)
    names = [f"test {number % 3_000}" for number in range(5_000)]
    path = write_report(folder / "a.xml", *names)
    packed = folder / "a.xml.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    ordinals = [ordinal for _, ordinal in ReportFile.examine(packed).read_cases()]
    assert ordinals == [0] * 3_000 + [1] * 2_000
    await ingest(store, request_for(path))
    assert (await store.get_status(NOON)).executions == 5_000
    count, _ = await ingest(store, request_for(packed))
    assert count == IngestCount(read=5_000, unchanged=5_000)


def test_a_large_report_that_changes_between_its_readings_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_files, "SMALL_REPORT_BYTES", 0)
    path = write_report(folder / "a.xml", "one")
    file = ReportFile.examine(path)
    write_report(path, "two")
    with pytest.raises(ReportError, match="changed"):
        list(file.read_cases())


async def test_what_cannot_be_read_is_refused_by_name_and_the_rest_lands(
    store: Store, folder: Path
) -> None:
    good = write_report(folder / "good.xml", "one")
    bad = {
        "missing.xml": "no such file",
        "empty.xml": "empty",
        "binary.xml": "not well-formed",
        "cut.xml.gz": "gzip",
        "corrupt.xml.gz": "gzip",
        "html.xml": "<html>",
        "x" * 300 + ".xml": "cannot be read",
    }
    (folder / "empty.xml").touch()
    (folder / "binary.xml").write_bytes(bytes(range(256)))
    packed = gzip.compress(good.read_bytes())
    (folder / "cut.xml.gz").write_bytes(packed[:-10])
    (folder / "corrupt.xml.gz").write_bytes(packed[:10] + b"\xff" * 20)
    (folder / "html.xml").write_text("<html/>")
    count, refused = await ingest(
        store, *(request_for(folder / name) for name in bad), request_for(good)
    )
    assert count == IngestCount(read=len(bad) + 1, written=1, refused=len(bad))
    for refusal, (name, reason) in zip(refused, bad.items(), strict=True):
        assert refusal.file == str(folder / name)
        assert reason in refusal.reason


async def test_the_time_is_the_given_one_then_the_reports_then_the_files(
    store: Store, folder: Path
) -> None:
    path = folder / "a.xml"
    path.write_text(
        '<testsuite><testcase name="own" timestamp="2026-01-02T03:04:05"><error/></testcase>'
        '<testcase name="none"><error/></testcase></testsuite>'
    )
    os.utime(path, (1_700_000_000, 1_700_000_000.5))
    await ingest(store, request_for(path, at=None))
    own, none = await find(store, "own"), await find(store, "none")
    assert own.health.last_failure_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert none.health.last_failure_at == datetime.fromtimestamp(1_700_000_000.5, UTC)

    os.utime(path, (1_760_000_000, 1_760_000_000))
    count, _ = await ingest(store, request_for(path, at=None))
    assert count.unchanged == 2
    assert (await find(store, "none")).health.last_failure_at == none.health.last_failure_at

    await ingest(store, request_for(path, make_run("2")))
    assert (await find(store, "own")).health.last_failure_at == NOON


@pytest.mark.parametrize("stated", ["0001-01-01T00:00:00", "1999-12-31", "2262-04-11T23:47:16"])
async def test_a_wrong_time_within_a_report_counts_as_missing(
    store: Store, folder: Path, stated: str
) -> None:
    path = folder / "a.xml"
    path.write_text(
        f'<testsuite timestamp="{stated}"><testcase name="t"><error/></testcase></testsuite>'
    )
    os.utime(path, (1_700_000_000, 1_700_000_000))
    await ingest(store, request_for(path, at=None))
    found = await find(store, "t")
    assert found.health.first_failure_at == datetime.fromtimestamp(1_700_000_000, UTC)


async def test_a_wrong_time_of_a_case_counts_as_missing_and_that_of_its_suite_is_taken(
    store: Store, folder: Path
) -> None:
    path = folder / "a.xml"
    path.write_text(
        '<testsuite timestamp="2026-01-02T03:04:05">'
        '<testcase name="t" timestamp="2099-01-01T00:00:00"><error/></testcase></testsuite>'
    )
    await ingest(store, request_for(path, at=None))
    found = await find(store, "t")
    assert found.health.first_failure_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        ("1999-12-31T23:59:59", 0),
        ("2000-01-01T00:00:00", 1),
        ("2026-09-02T12:00:00", 1),
        ("2026-09-02T12:00:01", 0),
    ],
)
async def test_a_case_has_a_time_from_2000_on_and_at_most_a_day_ahead(
    store: Store, folder: Path, stated: str, written: int
) -> None:
    path = folder / "a.xml"
    path.write_text(f'<testsuite><testcase name="t" timestamp="{stated}"/></testsuite>')
    os.utime(path, (0, 0))
    count, _ = await ingest(store, request_for(path, at=None))
    assert count.written == written


@pytest.mark.parametrize("modified", [0, 4_000_000_000])
async def test_a_case_without_any_usable_time_is_refused(
    store: Store, folder: Path, modified: int
) -> None:
    path = folder / "a.xml"
    path.write_text(
        '<testsuite><testcase name="own" timestamp="2026-01-02T03:04:05"/>\n'
        '<testcase name="none"/></testsuite>'
    )
    os.utime(path, (modified, modified))
    count, refused = await ingest(store, request_for(path, at=None))
    assert count == IngestCount(read=2, written=1, refused=1)
    assert refused[0].line == 2
    assert "no usable time" in refused[0].reason
    assert "--started-at" in refused[0].reason


@pytest.mark.parametrize(
    ("nanoseconds", "year"), [(2**39 * 10**9, 9999), (-(2**39) * 10**9, 1), (0, 1970)]
)
def test_a_file_has_a_time_whatever_its_file_system_says(nanoseconds: int, year: int) -> None:
    found = report_files.read_file_time(nanoseconds)
    assert found.year == year
    assert format_timestamp(found).startswith(f"{year:04}-")


@pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="needs a tmpfs")
async def test_a_report_of_a_year_that_no_date_has_is_refused(store: Store) -> None:
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        paths = [write_report(Path(folder, f"{name}.xml"), name) for name in ("odd", "even")]
        for path, modified in zip(paths, (2**39, 1_700_000_000), strict=True):
            os.utime(path, (modified, modified))
        count, refused = await ingest(store, *[request_for(path, at=None) for path in paths])
    assert count == IngestCount(read=2, written=1, refused=1)
    assert "no usable time" in refused[0].reason


@pytest.mark.parametrize("started_at", [datetime(1970, 1, 1, tzinfo=UTC), after(days=1.001)])
async def test_a_wrong_start_refuses_the_report_and_is_named(
    store: Store, folder: Path, started_at: datetime
) -> None:
    path = write_report(folder / "a.xml", "t")
    count, refused = await ingest(store, request_for(path, at=started_at))
    assert count == IngestCount(read=1, refused=1)
    assert refused[0].reason.startswith("started_at is ")


async def test_what_the_job_and_the_case_know_is_shown_of_the_test(
    store: Store, folder: Path
) -> None:
    path = folder / "a.xml"
    path.write_text(REPORT.format('<testcase classname="C" name="n" file="c.py"/>'))
    request = ReportRequest(path, WIDGETS, make_run(), NOON, "pytest", "9", "python")
    await ingest(store, request)
    metadata = (await find(store, "C.n")).metadata
    assert (metadata.framework, metadata.framework_version) == ("pytest", "9")
    assert (metadata.language, metadata.filepath) == ("python", "c.py")
    assert metadata.function_name == "n"


@pytest.mark.parametrize(
    ("path", "workspace", "stored"),
    [
        ("/w/repo/tests/a.php", "/w/repo", "tests/a.php"),
        ("/w/repo/tests/a.php", "/w/repo/", "tests/a.php"),
        (r"D:\a\repo\tests\a.js", r"D:\a\repo", r"tests\a.js"),
        ("D:/a/repo/tests/a.js", r"D:\a\repo", "tests/a.js"),
        (r"d:\a\repo\tests\a.js", r"D:\a\repo", r"tests\a.js"),
        ("C:\\a\\\u0130\\t.js", "C:\\a\\\u0130", "t.js"),
        ("/w/repo//tests/./a.php", "/w/repo", "tests/a.php"),
        ("/w/repo/../other/a.php", "/w/repo", "/w/repo/../other/a.php"),
        ("/w/repository/a.php", "/w/repo", "/w/repository/a.php"),
        ("/elsewhere/a.php", "/w/repo", "/elsewhere/a.php"),
        ("tests/a.php", "/w/repo", "tests/a.php"),
        ("/w/repo/", "/w/repo", "/w/repo/"),
        ("/w/repo/tests/a.php", None, "/w/repo/tests/a.php"),
        ("/a.php", "/", "a.php"),
    ],
)
async def test_a_file_in_the_workspace_is_stored_relative_to_it(
    store: Store, folder: Path, path: str, workspace: str | None, stored: str
) -> None:
    report = folder / "a.xml"
    report.write_text(REPORT.format(f'<testcase name="n" file="{path}"/>'))
    await ingest(store, replace(request_for(report), workspace=workspace))
    assert (await find(store, "n")).metadata.filepath == stored


@pytest.mark.parametrize(
    "run",
    [
        make_run(pipeline=""),
        make_run(job="x" * 8_001),
        make_run(branch="a\0b"),
        make_run(commit="\ud800"),
        make_run(""),
        make_run(attempt=0),
        make_run(attempt=2**31),
    ],
)
async def test_a_run_that_cannot_be_stored_is_refused(store: Store, folder: Path, run: Run) -> None:
    path = write_report(folder / "a.xml", "one")
    count, _ = await ingest(store, request_for(path, run))
    assert count == IngestCount(read=1, refused=1)
    assert check_run(make_run()) == make_run()


async def test_progress_counts_files_and_their_total(store: Store, folder: Path) -> None:
    for name in ("1.xml", "2.xml", "3.xml"):
        write_report(folder / name, name)
    told: list[tuple[int, int | None]] = []
    await ingest_reports(
        store,
        [request_for(folder), request_for(folder / "missing")],
        refuse=lambda _: None,
        clock=after,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
