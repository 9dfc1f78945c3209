"""Charts: what is drawn is what was counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.ui.charts import (
    CHART_HEIGHT,
    CHART_WIDTH,
    draw_bars,
    draw_durations,
    draw_proportion,
    draw_spark,
)

COUNTS = st.none() | st.integers(0, 1_000_000)


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS), min_size=1, max_size=90))
def test_every_bar_is_within_the_chart_and_no_count_is_lost(
    days: list[tuple[int | None, ...]],
) -> None:
    series = {name: [day[at] for day in days] for at, name in enumerate("abc")}
    bars = draw_bars(series)
    for name, values in series.items():
        assert len(bars.parts[name]) == sum(1 for value in values if value)
        for rect in bars.parts[name]:
            assert 0 <= rect.x < rect.x + rect.width <= CHART_WIDTH
            assert -0.1 <= rect.y <= CHART_HEIGHT
            assert rect.height >= 1
    labels = [value for value, _ in bars.lines]
    assert labels == sorted(labels, reverse=True)
    assert labels[-1] == 0
    assert labels[0] >= max(sum(value or 0 for value in day) for day in days)
    assert 2 <= len(labels) <= 6


def test_bars_stand_on_each_other_in_their_order() -> None:
    bars = draw_bars({"broken": [1], "flaky": [2]})
    [broken], [flaky] = bars.parts["broken"], bars.parts["flaky"]
    assert flaky.y < broken.y
    assert flaky.height > broken.height
    assert bars.lines[0] == (3, 0)


@given(
    st.lists(st.none() | st.tuples(st.floats(0, 3e9), st.floats(0, 3e9)), min_size=1, max_size=90)
)
def test_every_duration_is_within_the_chart_and_below_its_highest_line(
    days: list[tuple[float, float] | None],
) -> None:
    means = [None if day is None else min(day) for day in days]
    longest = [None if day is None else max(day) for day in days]
    drawn = draw_durations(means, longest)
    known = [seconds for seconds in longest if seconds is not None]
    if not known:
        assert drawn is None
        return
    assert drawn is not None
    dots = [dot.removesuffix("h0").split() for dot in drawn.longest.split("M")[1:]]
    points = [each.split() for each in drawn.mean.removesuffix("h0")[1:].split("L")]
    assert len(dots) == len(points) == len(known)
    for (x, y), (x_of_mean, y_of_mean) in zip(dots, points, strict=True):
        assert x == x_of_mean
        assert 0 < float(x) < CHART_WIDTH
        assert 0 <= float(y) <= float(y_of_mean) <= CHART_HEIGHT
    number, unit = drawn.lines[0][0].replace(",", "").split()
    size = {"ms": 0.001, "s": 1, "min": 60, "h": 3_600}[unit]
    assert float(number) * size >= max(known) * 0.999_999
    assert drawn.lines[-1][0].startswith("0 ")
    assert 2 <= len(drawn.lines) <= 6


def test_a_scale_of_durations_has_a_unit_that_suits_the_longest() -> None:
    def top_of(seconds: float) -> str:
        drawn = draw_durations([seconds], [seconds])
        assert drawn is not None
        return drawn.lines[0][0]

    assert [top_of(each) for each in (0, 0.097, 1.3, 2.5, 119, 600, 9_000)] == [
        "1 ms",
        "100 ms",
        "1,500 ms",
        "3 s",
        "150 s",
        "10 min",
        "3 h",
    ]


def test_a_line_starts_at_zero_and_ends_at_the_newest_value() -> None:
    spark = draw_spark("Flaky", [0, 4, None, 2])
    assert spark is not None
    assert spark.label == "Flaky, 4 days: 0 at first, 4 at most, 2 now"
    assert spark.line.startswith("M0 29.5")
    assert spark.end == (116.0, 16.0)
    assert draw_spark("Flaky", []) is None


HEALTH = ("broken", "flaky", "unknown", "healthy")


@given(st.dictionaries(st.sampled_from(HEALTH), st.integers(0, 1_000_000)))
def test_a_proportion_shows_each_health_that_some_have(counts: dict[str, int]) -> None:
    drawn = draw_proportion(counts)
    parts = drawn.parts
    assert list(parts) == [health for health in HEALTH if counts.get(health)]
    end = 0.0
    for part in parts.values():
        assert part.x >= end
        assert part.width >= 20
        assert 0 <= part.y < part.y + part.height == drawn.height
        end = part.x + part.width
    assert end == (drawn.width if parts else 0)


def test_a_proportion_says_its_numbers() -> None:
    counts = {"healthy": 1_084, "broken": 9, "flaky": 14}
    assert draw_proportion(counts).label == "9 broken, 14 flaky, 0 unknown, 1,084 healthy"
