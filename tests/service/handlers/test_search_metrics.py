"""The metrics of rows of the test search over HTTP, and its filters and orders by them."""

from __future__ import annotations

import csv
import io

import orjson
import pytest

from indexing.models.executions import Conclusion
from indexing.models.quarantines import QuarantineRequest
from service.cache import reader
from tests.builders import NOON, WIDGETS, after, load_history
from tests.service.front_door import SEARCH, FrontDoor

P, F = Conclusion.PASSED, Conclusion.FAILED


@pytest.fixture(autouse=True)
async def filled(door: FrontDoor) -> None:
    door.clock.now = NOON
    await load_history(door.store, "bolt", "unit", [P, F, F, F], duration=0.5)
    await load_history(door.store, "hinge", "unit", [P, F, P, F, P])
    await load_history(door.store, "knob", "unit", [P, P, P], duration=1.5)
    await door.store.refresh_tests(NOON)


async def names(door: FrontDoor, query: str) -> list[str]:
    pages = await door.walk(f"{SEARCH}?test_name=*&per_page=1&{query}", "tests")
    return [row["test_name"] for page in pages for row in page]


async def test_rows_have_their_metrics_on_request(door: FrontDoor) -> None:
    answer = await door.get(f"{SEARCH}?test_name=bolt&include=metrics")
    (row,) = answer.json["tests"]
    assert list(row) == ["test_id", "test_name", "pipeline_name", "job_name", "metrics"]
    assert row["metrics"] == {
        "health_status": "broken",
        "executions_count": 4,
        "failed_executions_count": 3,
        "failure_ratio": 0.75,
        "flakiness_ratio": 0.0,
        "mean_duration": 0.5,
        "last_execution_at": "2026-09-01T12:00:00Z",
        "last_failure_at": "2026-09-01T12:00:00Z",
        "is_quarantined": False,
        "latest_verdicts": ["passed", "failed", "failed", "failed"],
    }
    (plain,) = (await door.get(f"{SEARCH}?test_name=bolt")).json["tests"]
    assert plain == {name: row[name] for name in list(row)[:4]}


async def test_filters_and_orders_are_by_the_same_metrics(door: FrontDoor) -> None:
    assert await names(door, "sort=health_status") == ["bolt", "hinge", "knob"]
    assert await names(door, "sort=failure_ratio&direction=asc") == ["knob", "hinge", "bolt"]
    assert await names(door, "sort=mean_duration") == ["knob", "bolt", "hinge"]
    assert await names(door, "health_status=broken&health_status=healthy&sort=test_name") == [
        "knob",
        "bolt",
    ]
    assert await names(door, "health_status_exclude=healthy&sort=failed_executions_count") == [
        "bolt",
        "hinge",
    ]
    both = "health_status=broken&health_status=healthy&health_status_exclude=healthy"
    assert await names(door, both) == ["bolt"]
    assert await names(door, "health_status=broken&health_status_exclude=broken") == []


async def test_names_files_and_quarantines_filter_too(door: FrontDoor) -> None:
    assert await names(door, "test_name_exclude=b*&test_name_exclude=hing?") == ["knob"]
    assert await names(door, "test_filepath=*") == []
    await door.store.add_quarantine(WIDGETS, QuarantineRequest("bolt", "by hand"), NOON)
    assert await names(door, "quarantined=true") == ["bolt"]
    assert await names(door, "quarantined=false&sort=test_name") == ["knob", "hinge"]


async def test_all_globs_of_a_request_cost_as_much_as_one_may(door: FrontDoor) -> None:
    some = "&".join(f"test_name_exclude={'*a' * 10}{number}" for number in range(30))
    answer = await door.get(f"{SEARCH}?test_name=*&{some}")
    assert answer.status == 200
    more = some.replace("test_name_exclude", "test_filepath")
    answer = await door.get(f"{SEARCH}?test_name=*&{some}&{more}")
    assert answer.wrong_fields == [("query", "test_filepath")]


async def test_a_quarantine_shows_until_its_very_end(door: FrontDoor) -> None:
    target = f"{SEARCH}?test_name=bolt&include=metrics"

    async def is_quarantined() -> bool:
        (row,) = (await door.get(target)).json["tests"]
        return bool(row["metrics"]["is_quarantined"])

    assert not await is_quarantined()
    request = QuarantineRequest("bolt", "by hand", expires_at=after(seconds=9))
    await door.store.add_quarantine(WIDGETS, request, NOON)
    assert await is_quarantined()
    door.clock.now = after(seconds=8.9)
    assert await is_quarantined()
    door.clock.now = after(seconds=9)
    assert not await is_quarantined()


async def test_a_page_has_the_total_on_request(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"{SEARCH}?test_name=*&per_page=1&include=total"
    answer = await door.get(f"{target}&health_status_exclude=healthy")
    assert list(answer.json) == ["size", "per_page", "tests", "total", "total_is_exact"]
    assert (answer.json["total"], answer.json["total_is_exact"]) == (2, True)
    assert "metrics" not in answer.json["tests"][0]
    more = await door.get(f"{answer.links['next']}&include=metrics")
    assert (more.json["total"], more.json["tests"][0]["metrics"]["health_status"]) == (2, "broken")
    monkeypatch.setattr(reader, "MAX_TOTAL", 3)
    exact = await door.get(target)
    assert (exact.json["total"], exact.json["total_is_exact"]) == (3, True)
    monkeypatch.setattr(reader, "MAX_TOTAL", 2)
    some = await door.get(f"{target}&sort=test_name")
    assert (some.json["total"], some.json["total_is_exact"]) == (2, False)
    plain = await door.get(f"{SEARCH}?test_name=*&per_page=1")
    assert list(plain.json) == ["size", "per_page", "tests"]


async def test_what_is_included_may_change_between_pages(door: FrontDoor) -> None:
    first = await door.get(f"{SEARCH}?test_name=*&per_page=1&sort=failure_ratio")
    second = await door.get(f"{first.links['next']}&include=metrics")
    (row,) = second.json["tests"]
    assert (row["test_name"], row["metrics"]["failure_ratio"]) == ("hinge", 0.4)


async def test_a_cursor_is_of_its_order_and_filters(door: FrontDoor) -> None:
    first = await door.get(f"{SEARCH}?test_name=*&per_page=1&sort=failure_ratio")
    for change in ("&health_status=broken", "&health_status_exclude=flaky"):
        answer = await door.get(first.links["next"] + change)
        assert answer.wrong_fields == [("query", "cursor")]


async def test_wrong_values_are_named(door: FrontDoor) -> None:
    query = "health_status=ill&health_status_exclude=x&include=all&sort=age&quarantined=1"
    query += "&test_name_exclude=&test_filepath=" + "*a" * 17
    answer = await door.get(f"{SEARCH}?test_name=*&{query}")
    assert answer.wrong_fields == [
        ("query", "health_status"),
        ("query", "health_status_exclude"),
        ("query", "include"),
        ("query", "quarantined"),
        ("query", "sort"),
        ("query", "test_filepath"),
        ("query", "test_name_exclude"),
    ]


async def test_streams_have_the_metrics_too(door: FrontDoor) -> None:
    target = f"{SEARCH}?test_name=*&sort=test_name&include=metrics"
    rows = (await door.get(target)).json["tests"]
    lines = await door.get(target, Accept="application/x-ndjson")
    assert [orjson.loads(line) for line in lines.body.splitlines()] == rows
    table = await door.get(target, Accept="text/csv")
    for told, row in zip(csv.DictReader(io.StringIO(table.body.decode())), rows, strict=True):
        metrics = row["metrics"]
        assert list(told) == [*list(row)[:4], *metrics]
        assert told["failure_ratio"] == str(metrics["failure_ratio"])
        assert told["last_failure_at"] == (metrics["last_failure_at"] or "")
        assert told["is_quarantined"] == "false"
        assert told["latest_verdicts"].split() == metrics["latest_verdicts"]
