"""The event in the log that records a change of settings, and its content."""

from __future__ import annotations

import itertools
from dataclasses import replace

import orjson
import pytest

from indexing.events.parsing import parse_event
from indexing.models.repositories import Repository
from indexing.quarantine.configuration import describe_change
from tests.builders import NOON, WIDGETS

SETTINGS = [
    Repository(WIDGETS, auto_quarantine=on, ignore_broken_on_default_branch=ignore)
    for on, ignore in itertools.product([False, True], repeat=2)
]


@pytest.mark.parametrize("before", SETTINGS)
@pytest.mark.parametrize("after", SETTINGS)
def test_each_change_makes_one_event_or_none(before: Repository, after: Repository) -> None:
    event = describe_change(before, after, NOON)
    if before == after or not (before.auto_quarantine or after.auto_quarantine):
        assert event is None
        return
    assert event is not None
    step = {(False, True): "enabled", (True, False): "disabled", (True, True): "modified"}[
        before.auto_quarantine, after.auto_quarantine
    ]
    assert event.type == f"ci_insights.auto_quarantine.{step}"
    assert (event.key.received_at, event.repository) == (NOON, WIDGETS)
    assert (event.pull_request, event.base_ref) == (None, None)
    assert parse_event(event.body).finish(WIDGETS) == event
    metadata = orjson.loads(event.body)["metadata"]
    (actor,) = (value for name, value in metadata.items() if name.endswith("_by"))
    assert (actor["type"], actor["name"]) == ("application", "mergewatch")
    (moment,) = (value for name, value in metadata.items() if name.endswith("_at"))
    assert moment == "2026-09-01T12:00:00Z"
    configurations = [v for n, v in metadata.items() if n.startswith("auto_quarantine_config")]
    expected = {"enabled": [after], "disabled": [before], "modified": [before, after]}[step]
    assert configurations == [
        {"ignore_broken_on_default_branch": each.ignore_broken_on_default_branch}
        for each in expected
    ]


def test_other_settings_are_none_of_its_business() -> None:
    on = replace(SETTINGS[2], default_branch="next", flaky_detection=False)
    assert describe_change(SETTINGS[2], on, NOON) is None
