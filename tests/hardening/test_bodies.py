"""The bodies that scenarios send match their names and are within the service's limits."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from hardening import bodies, body_generator
from hardening.bodies import MAX_BYTES, HostileBody
from indexing.events.parsing import parse_event
from indexing.ingest.compression import inflate_gzip
from indexing.names import RepositoryName
from indexing.otlp.json_mapping import read_json
from indexing.otlp.results import Results
from tests.spans import JSON

SENDER = RepositoryName("umbrella", "sender")
COUNT = 12
PIECE = 64 * 1024


def unpacked(body: HostileBody) -> bytes:
    """Its content; for each gzip member, the standard library copies all the remaining bytes."""
    if not body.packed:
        return body.data
    pieces = (body.data[start : start + PIECE] for start in range(0, len(body.data), PIECE))
    return b"".join(inflate_gzip(pieces))


@pytest.fixture(scope="module")
def hostile() -> list[HostileBody]:
    return [*bodies.hostile_lines(), *bodies.hostile_spans()]


@pytest.mark.slow
def test_no_hostile_body_is_refused_for_its_size_alone(hostile: list[HostileBody]) -> None:
    assert [body.name for body in hostile if len(unpacked(body)) > MAX_BYTES] == []
    names = [body.name for body in hostile]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_bodies_named_valid_are_valid(hostile: list[HostileBody]) -> None:
    valid = [body for body in hostile if "valid" in body.name]
    assert len(valid) == 2
    for body in valid:
        lines = unpacked(body).split(b"\n")
        assert len(lines) == 64
        assert all(60_000 < len(line) < 64 * 1024 for line in lines)
        assert len({parse_event(line).key for line in lines}) == 64


def test_spans_are_results_of_one_run_unless_each_has_its_own_commit() -> None:
    now = datetime.now(UTC)
    for own, runs in ((False, 1), (True, 20)):
        results = Results(SENDER, now)
        for span in read_json(bodies.make_spans(0, 20, now, own_commits=own)):
            results.add(span)
        assert (len(results.runs), results.rejected) == (runs, 0)
        assert len({e.id for each in results.runs.values() for e in each}) == 20


@pytest.mark.slow
@pytest.mark.parametrize("path", body_generator.operations())
def test_generated_bodies_are_the_same_for_the_same_seed(path: str) -> None:
    made = body_generator.make(path, COUNT, 3)
    assert len(made) == COUNT
    assert [unpacked(body) for body in body_generator.make(path, COUNT, 3)] == [
        unpacked(body) for body in made
    ]
    assert all(0 < len(unpacked(body)) <= MAX_BYTES for body in made)
    assert len({unpacked(body) for body in made}) > COUNT // 2


def test_a_body_grows_in_one_place() -> None:
    made = body_generator.make(body_generator.operations()[0], 40, 1)
    sizes = [len(unpacked(body)) for body in made]
    assert max(sizes) > 100 * min(sizes)


def test_a_result_has_the_time_that_it_is_given() -> None:
    document = orjson.loads(bodies.make_result("late", "skipped", 2**63 - 1, 7))
    (span,) = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (span["name"], span["endTimeUnixNano"]) == ("late", str(2**63 - 1))
    assert JSON == "application/json"
