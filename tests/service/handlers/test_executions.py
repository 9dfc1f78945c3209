"""GET …/tests/{test_id}/executions."""

from __future__ import annotations

import csv
import io
import uuid
from datetime import timedelta
from typing import Any

import aiohttp
import orjson
import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.timestamps import format_timestamp
from service.handlers import row_stream
from service.schemas.limits import MAX_RANGE
from tests.builders import GADGETS, NOON, WIDGETS, make_executions, make_run
from tests.service.front_door import A_TEST_ID, TESTS, FrontDoor
from tests.service.handlers.results import load

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}/executions"
LID = f"{TESTS}/{derive_test_id(WIDGETS, 'lid')}/executions"
HOSTILE = "=1+1\x1b[31m<script>\u202e"


async def test_an_execution_has_the_fields_of_the_interface_in_their_order(door: FrontDoor) -> None:
    await load(door, 1)
    answer = await door.get(HINGE)
    (row,) = answer.json["executions"]
    assert uuid.UUID(row["failure_id"]).version == 5
    assert len(bytes.fromhex(row["id"])) == 16
    assert answer.json == {
        "size": 1,
        "per_page": 10,
        "executions": [
            {
                "id": row["id"],
                "finished_at": "2026-09-01T12:00:00Z",
                "conclusion": "failed",
                "needed_retries": False,
                "duration": 1.5,
                "branch": "main",
                "commit": "c0",
                "pipeline_name": "ci",
                "job_name": "unit",
                "run_id": "0",
                "attempt": 1,
                "pull_request": 17,
                "job_url": "https://ci.example/7",
                "failure_id": row["failure_id"],
            }
        ],
    }
    assert [*answer.json] == ["size", "per_page", "executions"]
    (passed,) = (await door.get(LID)).json["executions"]
    assert passed["failure_id"] is None
    again = await door.get(HINGE, **{"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


async def test_a_walk_keeps_its_range_and_meets_each_execution_once(door: FrontDoor) -> None:
    await load(door)
    first = await door.get(f"{HINGE}?per_page=2")
    door.clock.now = NOON + timedelta(days=300)
    pages = await door.walk(first.links["next"], "executions")
    rows = [row for page in (first.json["executions"], *pages) for row in page]
    commits = [row["commit"] for row in rows]
    assert commits == ["c0", "c1", "c2", "c3", "c4"]
    # Without a cursor, the range ends now.
    assert (await door.get(HINGE)).json["executions"] == []
    assert (await door.get(f"{HINGE}?start=2026-08-01T00:00:00Z")).json["size"] == 5


async def test_filters_choose_executions(door: FrontDoor) -> None:
    await load(door)
    for query, size in {
        "commit=c1&commit=c3": 2,
        "branch=main": 5,
        "branch=topic": 0,
        "conclusion=failed": 5,
        "conclusion=passed&conclusion=skipped": 0,
        "pipeline_name=ci&job_name=unit": 5,
        "job_name=windows": 0,
        "end=2026-09-01T11:58:00Z": 2,
        "start=2026-09-01T11:58:00Z&end=2026-09-01T12:00:00Z": 2,
    }.items():
        assert (await door.get(f"{HINGE}?{query}")).json["size"] == size, query


async def test_the_longest_range_until_now_is_accepted(door: FrontDoor) -> None:
    await load(door)
    start = format_timestamp(door.clock.now - MAX_RANGE)
    answer = await door.get(f"{HINGE}?start={start}")
    assert answer.json["size"] == 5
    # Requests within a minute are still the same request, also if they begin a little earlier.
    door.clock.now += timedelta(seconds=59)
    again = await door.get(f"{HINGE}?start={start}")
    assert again.headers["ETag"] == answer.headers["ETag"]


async def test_the_longest_range_is_accepted(door: FrontDoor) -> None:
    await load(door, 1)
    query = "start=2025-08-01T00:00:00Z&end=2026-09-05T00:00:00Z"
    assert (await door.get(f"{HINGE}?{query}")).json["size"] == 1


async def test_a_cursor_of_another_test_or_filter_is_refused(door: FrontDoor) -> None:
    await load(door)
    cursor = (await door.get(f"{HINGE}?per_page=2")).links["next"].partition("cursor=")[2]
    cursor = cursor.partition("&")[0]
    for target in (f"{LID}?cursor={cursor}", f"{HINGE}?branch=main&cursor={cursor}"):
        assert (await door.get(target)).wrong_fields == [("query", "cursor")]
    assert (await door.get(f"{HINGE}?cursor={cursor}")).status == 200


async def test_an_unknown_test_and_one_of_another_repository_answer_alike(door: FrontDoor) -> None:
    await load(door, 1)
    run = make_run()
    foreign = make_executions(run, [("foreign", Conclusion.PASSED)], repository=GADGETS)
    await door.store.write_results(GADGETS, {run: foreign})
    await door.store.refresh_tests(NOON)
    absent = await door.get(f"{TESTS}/{A_TEST_ID}/executions")
    elsewhere = await door.get(f"{TESTS}/{derive_test_id(GADGETS, 'foreign')}/executions")
    assert (absent.status, absent.body) == (404, elsewhere.body)
    assert (await door.get(f"{TESTS}/{uuid.uuid4()}/executions")).wrong_fields == [
        ("path", "test_id")
    ]


async def test_a_new_execution_shows_at_once(door: FrontDoor) -> None:
    await load(door, 1)
    assert (await door.get(HINGE)).json["size"] == 1
    await load(door, 2)
    assert (await door.get(HINGE)).json["size"] == 2


async def test_all_executions_come_as_one_stream(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_stream, "ROWS_AT_ONCE", 2)
    await load(door)
    for query in ("", "&commit=c1&commit=c3", "&branch=topic"):
        pages = await door.walk(f"{HINGE}?per_page=2{query}", "executions")
        rows = [row for page in pages for row in page]
        lines = await door.get(f"{HINGE}?per_page=1{query}", Accept="application/x-ndjson")
        assert [orjson.loads(line) for line in lines.body.splitlines()] == rows
        table = await door.get(f"{HINGE}?{query[1:]}", Accept="text/csv")
        header, *cells = csv.reader(io.StringIO(table.body.decode(), newline=""))
        assert [dict(zip(header, each, strict=True)) for each in cells] == [
            {
                name: str(value or "") if value is not False else "false"
                for name, value in row.items()
            }
            for row in rows
        ]
    for answer in (lines, table, await door.get(HINGE)):
        assert answer.headers.getall("Vary") == ["Authorization", "Accept"]
    absent = await door.get(f"{TESTS}/{A_TEST_ID}/executions", Accept="text/csv")
    assert absent.status == 404


async def test_a_test_that_is_removed_breaks_its_stream_off(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_stream, "ROWS_AT_ONCE", 2)
    await load(door)
    read = door.reader.list_executions

    async def remove(query: Any, anchor: Any, limit: int) -> Any:
        return None if anchor.key is not None else await read(query, anchor, limit)

    monkeypatch.setattr(door.reader, "list_executions", remove)
    with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientConnectionError)):
        await door.get(HINGE, Accept="application/x-ndjson")


async def test_hostile_names_come_out_as_data(door: FrontDoor) -> None:
    run = make_run(HOSTILE, pipeline=HOSTILE, job=HOSTILE, branch=HOSTILE, commit=HOSTILE)
    executions = make_executions(run, [("hinge", Conclusion.PASSED)])
    await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)
    (row,) = (await door.get(HINGE)).json["executions"]
    names = ("run_id", "pipeline_name", "job_name", "branch", "commit")
    assert {row[name] for name in names} == {HOSTILE}
    table = await door.get(HINGE, Accept="text/csv")
    (cells,) = csv.DictReader(io.StringIO(table.body.decode(), newline=""))
    # The name must not be a formula in a spreadsheet.
    assert {cells[name] for name in names} == {f"'{HOSTILE}"}
