"""Manifests: rows that become requests, rows refused with their line, and real projects."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.ingest.junit import Refusal, ReportRequest
from indexing.ingest.manifest import LINE_MAX_BYTES, read_manifest
from indexing.models.executions import Run
from tests.builders import WIDGETS, after

SAMPLES = Path(__file__).parents[2] / "samples"
COLUMNS = "file,pipeline_name,job_name,branch,commit,started_at,run_id"
ROW = "a.xml,ci,unit,main,c0ffee,2026-01-31T12:00:00Z,7"


def read(folder: Path, *lines: str | bytes) -> list[ReportRequest | Refusal]:
    manifest = folder / "manifest.csv"
    manifest.write_bytes(
        b"\n".join(line.encode() if isinstance(line, str) else line for line in lines)
    )
    return list(read_manifest(manifest, WIDGETS, clock=after, framework="ctest"))


def refuse(folder: Path, *lines: str | bytes) -> tuple[int | None, str]:
    (refusal,) = read(folder, *lines)
    assert isinstance(refusal, Refusal)
    assert refusal.file == str(folder / "manifest.csv")
    return refusal.line, refusal.reason


def test_a_row_is_a_request(tmp_path: Path) -> None:
    assert read(tmp_path, COLUMNS, ROW) == [
        ReportRequest(
            path=tmp_path / "a.xml",
            repository=WIDGETS,
            run=Run("7", 1, "ci", "unit", "main", "c0ffee"),
            started_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
            framework="ctest",
        )
    ]


def test_more_columns_in_any_order_blank_cells_and_quotes_are_read(tmp_path: Path) -> None:
    (request,) = read(
        tmp_path,
        b"\xef\xbb\xbfpull_request,tests,run_id,attempt,file,started_at,commit,branch,job_name,"
        b"pipeline_name\r",
        '17,many,7,2,sub/b.xml,,c0ffee,main,"unit, ""fast""",ci\r',
        "",
    )
    assert isinstance(request, ReportRequest)
    assert request.path == tmp_path / "sub/b.xml"
    assert request.started_at is None
    assert request.run == Run("7", 2, "ci", 'unit, "fast"', "main", "c0ffee", pull_number=17)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROW + ",more", "8 cells"),
        ("a.xml,ci", "2 cells"),
        (ROW.replace("a.xml", ""), "file: must not be empty"),
        (ROW.replace("unit", ""), "job_name must not be empty"),
        (ROW.replace("unit", "x" * 8_001), "job_name must have at most"),
        (ROW.replace("12:00:00Z", "12:00:00"), "started_at: must be an RFC 3339"),
        (ROW.replace("2026-01-31", "1999-12-31"), "started_at: is before 2000-01-01"),
        (ROW.replace("2026-01-31", "2262-01-31"), "started_at: is more than a day ahead"),
        (ROW.replace("c0ffee", "a\0b"), "commit: must not hold a NUL"),
        (ROW.encode().replace(b"main", b"\xff"), "branch: must not hold"),
        (ROW.replace("unit", '"un"it'), "not a row of CSV"),
    ],
)
def test_a_bad_row_is_refused_by_line_and_the_others_stay(
    tmp_path: Path, row: str | bytes, reason: str
) -> None:
    first, second, third = read(tmp_path, COLUMNS, ROW, row, ROW)
    assert isinstance(first, ReportRequest)
    assert isinstance(second, Refusal)
    assert second.line == 3
    assert reason in second.reason
    assert third == first


@pytest.mark.parametrize("cell", ["0", "-1", "x", "1.0", "99999999999"])
@pytest.mark.parametrize("column", ["attempt", "pull_request"])
def test_numbers_are_checked(tmp_path: Path, column: str, cell: str) -> None:
    if (column, cell) == ("pull_request", "99999999999"):
        cell = "9" * 19
    line, reason = refuse(tmp_path, f"{COLUMNS},{column}", f"{ROW},{cell}")
    assert line == 2
    assert column in reason


def test_a_manifest_that_lacks_columns_is_refused_naming_them(tmp_path: Path) -> None:
    line, reason = refuse(tmp_path, "file,pipeline_name,branch,commit,started_at,run_id", ROW)
    assert (line, reason) == (1, "columns are missing: job_name")
    line, reason = refuse(tmp_path, f"{COLUMNS},file", ROW)
    assert (line, reason) == (1, "columns stand there twice: file")


def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "begin with a row of columns" in refuse(tmp_path, "")[1]
    assert "missing" in refuse(tmp_path, b"\x7fELF\0\1")[1]
    assert refuse(tmp_path, COLUMNS, "x" * (LINE_MAX_BYTES + 1))[0] == 2
    (refusal,) = read_manifest(tmp_path / "none.csv", WIDGETS, clock=after)
    assert refusal == Refusal(str(tmp_path / "none.csv"), None, "there is no such file")
    (refusal,) = read_manifest(tmp_path, WIDGETS, clock=after)
    assert isinstance(refusal, Refusal)


@pytest.mark.parametrize("file", ["../a.xml", "sub/a.xml", "/reports/a.xml"])
def test_files_are_relative_to_the_manifest_and_may_lie_anywhere(tmp_path: Path, file: str) -> None:
    (request,) = read(tmp_path, COLUMNS, ROW.replace("a.xml", file))
    assert isinstance(request, ReportRequest)
    assert request.path == tmp_path / file


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80) | st.text('a,"\n\r./', max_size=60).map(str.encode))
def test_garbage_is_refused_and_never_crashes(tmp_path: Path, garbage: bytes) -> None:
    for found in read(tmp_path, COLUMNS, garbage):
        assert isinstance(found, Refusal | ReportRequest)
