"""The overview of a repository: its health compared with a week ago, and recovered tests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from aiohttp import web

from indexing.errors import StoreUnavailableError
from indexing.models.trends import Stat
from indexing.timestamps import format_timestamp, parse_timestamp
from service.auth.principal import Principal
from service.routes import GET_STATS, LIST_RUNS, LIST_TRANSITIONS
from service.ui.api import Api
from service.ui.charts import CHART_HEIGHT, CHART_WIDTH, Spark, draw_bars, draw_spark, spread_labels
from service.ui.formats import show_count
from service.ui.page_context import PageContext
from service.ui.queries import first_of, read_pairs, write_pairs
from service.ui.recovered import find_recovered

RANGES: Final = (30, 90)
_WEEK: Final = 7
# The chart leaves out healthy tests, whose number would dwarf the others.
_DRAWN: Final = ("broken", "flaky", "unknown")
# A weekend without a report is no news.
_SILENT_DAYS: Final = 3
_SHOWN_QUARANTINES: Final = 5
_SHOWN_TRANSITIONS: Final = 6
# The maximum page size of the API. Those that are not shown at once are one click away.
_READ_TRANSITIONS: Final = "100"
_SERIES: Final = (
    Stat.BROKEN_TESTS,
    Stat.FLAKY_TESTS,
    Stat.UNKNOWN_TESTS,
    Stat.HEALTHY_TESTS,
    Stat.QUARANTINED_TESTS,
    Stat.EXECUTIONS,
    Stat.FAILED_EXECUTIONS,
)

Values = list[float | None]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure, its change within a week, and its sparkline; if `judged`, fewer is better."""

    name: str
    icon: str
    health: str
    target: str
    value: float | None
    change: float | None
    spark: Spark | None
    is_ratio: bool = False
    judged: bool = True
    about: str = ""


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}."""
    api = page.open_api(principal)
    asked = first_of(read_pairs(page.request.rel_url.raw_query_string), "days")
    days = next((each for each in RANGES if str(each) == asked), RANGES[0])
    since = format_timestamp(page.now - timedelta(days=_WEEK))
    unhealthy = [("health_status", each) for each in ("broken", "flaky")]
    of_new = [*unhealthy, ("start", since), ("per_page", _READ_TRANSITIONS)]
    found, new, (recovered, recovered_count) = await asyncio.gather(
        _read_series(page, api, days),
        api.get(LIST_TRANSITIONS, page.repository_path, write_pairs(of_new)),
        find_recovered(api, page.repository_path, [], _SHOWN_QUARANTINES),
    )
    series = {
        stat: [each["value"] for each in body["value_over_time"]] for stat, body in found.items()
    }
    starts = [each["start"] for each in found[Stat.BROKEN_TESTS]["value_over_time"]]
    of_health = {name: series[Stat(f"{name}_tests")] for name in (*_DRAWN, "healthy")}
    has_tests = any(values[-1] for values in of_health.values())
    # A repository that had no tests a week ago has nothing to compare with.
    had_tests = any(values[-1 - _WEEK] for values in of_health.values())
    runs = None
    if not (has_tests and any(series[Stat.EXECUTIONS][-_SILENT_DAYS:])):
        runs = await _read_newest_run(page, api)
    return await page.show(
        "overview.html",
        tab="overview",
        days=days,
        ranges=RANGES,
        tiles=_make_tiles(page, series, recovered_count, had_tests=had_tests),
        bars=draw_bars({name: of_health[name] for name in _DRAWN}),
        chart_width=CHART_WIDTH,
        chart_height=CHART_HEIGHT,
        of_health={name: values[-1] or 0 for name, values in of_health.items()},
        table=list(zip(starts, *of_health.values(), strict=True))[::-1],
        marks=[starts[at] for at in spread_labels(len(starts))],
        has_tests=has_tests,
        silence=_find_silence(page, runs) if has_tests else None,
        elsewhere=runs[0] if runs and not has_tests else None,
        new=new.value["transitions"][:_SHOWN_TRANSITIONS],
        more_new=new.value["transitions"][_SHOWN_TRANSITIONS:],
        has_older_new="next" in new.links,
        unhealthy_query=write_pairs(unhealthy),
        recovered=recovered,
        test_id_of=page.test_id_of,
    )


async def _read_newest_run(page: PageContext, api: Api) -> list[dict[str, Any]] | None:
    """Return the newest run of any branch, alone in a list; None if reading it takes too long."""
    try:
        newest = await api.get(LIST_RUNS, page.repository_path, write_pairs([("per_page", "1")]))
    except StoreUnavailableError:
        return None
    runs: list[dict[str, Any]] = newest.value["runs"]
    return runs


def _find_silence(page: PageContext, runs: list[dict[str, Any]] | None) -> str | None:
    """Return for how long no report has come, of any branch; None if that is not long."""
    if runs is None:
        return None
    if not runs:
        # Retention keeps the health of tests for longer than their results.
        return "longer than results are kept"
    days = (page.now - parse_timestamp(runs[0]["finished_at"])).days
    return show_count(days, "day") if days >= _SILENT_DAYS else None


async def _read_series(page: PageContext, api: Api, days: int) -> Mapping[Stat, Any]:
    """Read the series of the last `days` days, including today."""
    query = write_pairs(page.find_range(days))
    answers = await asyncio.gather(
        *(api.get(GET_STATS, {**page.repository_path, "stat": stat}, query) for stat in _SERIES)
    )
    return {stat: answer.value for stat, answer in zip(_SERIES, answers, strict=True)}


def _make_tiles(
    page: PageContext, series: Mapping[Stat, Values], recovered: int, *, had_tests: bool
) -> list[Tile]:
    tests, quarantines = map(page.link_in_repository, ("tests", "quarantines"))
    broken, flaky = series[Stat.BROKEN_TESTS], series[Stat.FLAKY_TESTS]
    quarantined = series[Stat.QUARANTINED_TESTS]
    ratios: Values = [
        (failed or 0) / executions if executions else None
        for failed, executions in zip(
            series[Stat.FAILED_EXECUTIONS], series[Stat.EXECUTIONS], strict=True
        )
    ]
    of_week, before = _sum_ratio(series, -_WEEK, None), _sum_ratio(series, -2 * _WEEK, -_WEEK)
    # Rounded to the tenths of a point that are shown: what is shown as 0.0 is no change.
    change = None if of_week is None or before is None else round(of_week - before, 3)
    may_leave = f"{recovered} may leave" if recovered else ""
    return [
        _count("Broken", "broken", f"{tests}?health_status=broken", broken, compared=had_tests),
        _count("Flaky", "flaky", f"{tests}?health_status=flaky", flaky, compared=had_tests),
        _count("Quarantined", "", quarantines, quarantined, about=may_leave),
        Tile(
            name="Failed executions",
            icon="broken",
            health="",
            target=tests,
            value=of_week,
            change=change,
            spark=draw_spark(
                "Failed executions, in percent", [ratio and ratio * 100 for ratio in ratios]
            ),
            is_ratio=True,
            about="of 7 days",
        ),
    ]


def _count(
    name: str,
    health: str,
    target: str,
    values: Values,
    *,
    compared: bool = True,
    about: str = "",
) -> Tile:
    """Return the tile of a number of tests; `compared` with the number of a week ago."""
    now = values[-1] or 0
    before = values[-1 - _WEEK] if compared else None
    change = None if before is None else now - before
    spark = draw_spark(name, values)
    icon = health or "held"
    return Tile(name, icon, health, target, now, change, spark, judged=bool(health), about=about)


def _sum_ratio(series: Mapping[Stat, Values], start: int, end: int | None) -> float | None:
    """Return the share of failed executions in these days; None if there were no executions."""
    failed, executions = (
        sum(value or 0 for value in series[stat][start:end])
        for stat in (Stat.FAILED_EXECUTIONS, Stat.EXECUTIONS)
    )
    return failed / executions if executions else None
