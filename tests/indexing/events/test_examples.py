"""The example events: made by their script, valid, and of every type."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from indexing.events.catalogue import EVENT_TYPES
from indexing.events.parsing import parse_event

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_example_events_are_what_their_script_makes() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "examples.make_events", "-"],
        cwd=EXAMPLES.parent,
        capture_output=True,
        check=True,
    )
    assert made.stdout == (EXAMPLES / "events.ndjson").read_bytes()


def test_the_example_events_are_valid_and_of_every_type() -> None:
    lines = (EXAMPLES / "events.ndjson").read_bytes().splitlines()
    events = [parse_event(line) for line in lines]
    counts = Counter(event.type for event in events)
    assert counts.keys() == set(EVENT_TYPES)
    assert min(counts.values()) >= 2
    assert [event.key for event in events] == sorted({event.key for event in events})
