"""The outcome of every event type: as documented, and as the migration of older stores has it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from indexing.events.catalogue import CATALOGUE
from indexing.events.outcomes import By, OutcomeRule, decide_outcome
from indexing.events.parsing import parse_event
from indexing.models.events import Outcome
from indexing.store.sqlite.columns import OUTCOMES
from indexing.store.sqlite.migrations import MIGRATIONS
from indexing.store.sqlite.schema import ensure_schema

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "events.ndjson"


def describe(rule: OutcomeRule) -> str:
    if isinstance(rule, Outcome):
        return f"`{rule.value}`"
    values: dict[str, list[str]] = {}
    for case, inner in rule.cases.items():
        values.setdefault(describe(inner), []).append(
            f"{case}".lower() if isinstance(case, bool) else case
        )
    told = []
    for outcome, cases in values.items():
        named = ", ".join(f"`{case}`" for case in cases)
        told.append(f"{named}: {outcome}")
    return f"by `{rule.member}`: " + "; ".join(told)


def test_the_documented_outcomes_are_the_declared_ones() -> None:
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", text, re.MULTILINE)
    assert rows == [(name, describe(each.outcome)) for name, each in CATALOGUE.items()]


def cases(rule: OutcomeRule) -> Iterator[tuple[dict[str, Any], Outcome]]:
    """Metadata for each case of a rule, with its outcome."""
    if isinstance(rule, Outcome):
        yield {}, rule
        return
    yield {}, Outcome.NEUTRAL
    *outer, member = rule.member.split(".")
    for value, inner in [*rule.cases.items(), ("no such value", Outcome.NEUTRAL)]:
        for metadata, outcome in cases(inner):
            here: dict[str, Any] = {member: value, **metadata}
            for name in reversed(outer):
                here = {name: here}
            yield here, outcome


EVERY_CASE = [
    (name, metadata, outcome)
    for name, declared in CATALOGUE.items()
    for metadata, outcome in cases(declared.outcome)
]


@pytest.mark.parametrize(("name", "metadata", "outcome"), EVERY_CASE)
def test_the_metadata_of_an_event_decides_its_outcome(
    name: str, metadata: dict[str, Any], outcome: Outcome
) -> None:
    assert decide_outcome(CATALOGUE[name].outcome, metadata) is outcome


def test_a_parsed_event_has_its_outcome_and_trigger() -> None:
    for line in EXAMPLES.read_bytes().splitlines():
        event, parsed = orjson.loads(line), parse_event(line)
        assert parsed.trigger == event["trigger"]
        assert parsed.outcome is decide_outcome(CATALOGUE[event["type"]].outcome, event["metadata"])


def test_a_value_of_another_kind_is_neutral() -> None:
    rule = By("a.b", {True: Outcome.SUCCESS})
    others: tuple[Any, ...] = ({}, [], None, 1, {"c": True})
    for value in others:
        assert decide_outcome(rule, {"a": {"b": value}}) is Outcome.NEUTRAL
        assert decide_outcome(rule, {"a": value}) is Outcome.NEUTRAL


def test_the_migration_gives_older_events_the_same_outcomes() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        ensure_schema(connection, MIGRATIONS[:6])
        connection.execute(
            "INSERT INTO repositories (id, key, owner, name, default_branch, flaky_detection,"
            " auto_quarantine, ignore_broken_on_default_branch)"
            " VALUES (1, 'a/b', 'a', 'b', 'main', 1, 0, 0)"
        )
        for number, (name, metadata, _) in enumerate(EVERY_CASE):
            trigger = "\N{TEST TUBE}" * (255 + number % 2)
            body = orjson.dumps({"trigger": trigger, "metadata": metadata}).decode()
            connection.execute(
                "INSERT INTO events (repository_id, received_at, id, type, body)"
                " VALUES (1, 0, ?, ?, ?)",
                (number, name, body),
            )
        ensure_schema(connection)
        rows = connection.execute(
            "SELECT id, outcome, length(triggered_by) FROM events ORDER BY id"
        )
        assert [(OUTCOMES[outcome], length) for _, outcome, length in rows] == [
            (outcome, None if number % 2 else 255)
            for number, (_, _, outcome) in enumerate(EVERY_CASE)
        ]
