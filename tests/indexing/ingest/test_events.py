"""Loading events into the embedded store."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.events.parsing import RefusedEventError
from indexing.ingest.counts import IngestCount
from indexing.ingest.dead_letter import DeadLetterError, DeadLetterFile, RefusedLine
from indexing.ingest.events import BATCH_EVENTS, ingest_events, read_event
from indexing.ingest.lines import Line, LineSplitter
from indexing.models.events import EventQuery
from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests import strategies
from tests.indexing.events import shapes
from tests.indexing.events.shapes import an_event

DEMO = RepositoryName("demo", "mergewatch")


def clock() -> datetime:
    """The day after the sample events."""
    return datetime(2026, 11, 4, tzinfo=UTC)


def to_lines(rows: Iterable[Any]) -> list[Line]:
    splitter = LineSplitter()
    raw = (row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    return [*splitter.feed(b"\n".join(raw)), *splitter.finish()]


def nothing_is_refused(line: RefusedLine) -> None:
    pytest.fail(str(line))


async def load(store: Store, rows: Iterable[Any]) -> tuple[IngestCount, list[RefusedLine]]:
    refused: list[RefusedLine] = []
    count = await ingest_events(
        store, to_lines(rows), source="rows", refuse=refused.append, clock=clock
    )
    return count, refused


async def bodies(store: Store) -> Sequence[Any]:
    query = EventQuery(DEMO, datetime(1971, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))
    page = await store.list_events(query, Anchor(), 5000)
    return [json.loads(row.body) for row in page.rows]


async def test_every_type_lands_and_is_unchanged_the_second_time(store: Store) -> None:
    rows = [shapes.plain(shapes.event_shape(name)) for name in shapes.EVENT_TYPES]
    for number, row in enumerate(rows):
        row["id"] = number
    assert await load(store, rows) == (IngestCount(read=41, written=41), [])
    assert await load(store, rows) == (IngestCount(read=41, unchanged=41), [])
    assert list(reversed(await bodies(store))) == rows


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(strategies.events, min_size=1, max_size=6))
async def test_whatever_landed_once_is_unchanged_ever_after(
    store: Store, rows: list[dict[str, Any]]
) -> None:
    first, refused = await load(store, rows)
    again, refused_again = await load(store, rows)
    assert again == IngestCount(
        read=len(rows), unchanged=first.written + first.unchanged, refused=first.refused
    )
    assert refused_again == refused


async def test_a_derived_id_makes_a_rerun_change_nothing(store: Store) -> None:
    row = an_event()
    del row["id"]
    other = {**dict(reversed(row.items())), "received_at": "2026-11-03T10:30:00+01:00"}
    count, _ = await load(store, [row, other])
    assert count == IngestCount(read=2, written=1, unchanged=1)


async def test_another_event_under_the_same_key_is_a_refused_line(store: Store) -> None:
    count, refused = await load(store, [an_event(), an_event(trigger="another")])
    assert count == IngestCount(read=2, written=1, refused=1)
    assert (refused[0].line.number, refused[0].line.offset) == (2, len(json.dumps(an_event())) + 1)
    assert "another event is stored" in refused[0].reasons[0]
    assert [row["trigger"] for row in await bodies(store)] == ["text"]


async def test_refused_lines_are_reported_and_the_rest_is_stored(store: Store) -> None:
    rows = [b"{not json", an_event(id=1), b"", b"  \r", an_event(id=2, type="nope"), b"\xff\xfe"]
    count, refused = await load(store, rows)
    assert count == IngestCount(read=4, written=1, refused=3)
    assert [one.line.number for one in refused] == [1, 5, 6]
    assert str(refused[1]) == "rows, line 5: type: 'nope' is none of the 41 event types"


@pytest.mark.parametrize(
    ("received_at", "reason"),
    [
        ("1999-12-31T23:59:59.999999Z", "received_at: is before 2000-01-01T00:00:00Z"),
        (
            "2026-11-05T00:00:00.000001Z",
            "received_at: is more than a day ahead of this machine's clock (2026-11-04T00:00:00Z)",
        ),
    ],
)
async def test_an_event_of_a_wrong_clock_is_refused_by_name(
    store: Store, received_at: str, reason: str
) -> None:
    count, refused = await load(store, [an_event(received_at=received_at), an_event()])
    assert count == IngestCount(read=2, written=1, refused=1)
    assert refused[0].reasons == (reason,)


@pytest.mark.parametrize("received_at", ["2000-01-01T00:00:00Z", "2026-11-05T00:00:00Z"])
async def test_both_ends_of_the_accepted_times_are_accepted(store: Store, received_at: str) -> None:
    count, _ = await load(store, [an_event(received_at=received_at)])
    assert count.written == 1


async def test_a_refused_event_makes_no_repository_known(store: Store) -> None:
    await load(store, [an_event(repository="ghost/town", type="nope")])
    assert await store.find_repository(RepositoryName("ghost", "town")) is None


async def test_all_events_are_in_the_spelling_that_came_first(store: Store) -> None:
    rows = [an_event(id=1, repository="Demo/MergeWatch"), an_event(id=2)]
    await load(store, rows)
    assert {row["repository"] for row in await bodies(store)} == {"Demo/MergeWatch"}


def test_an_event_of_another_repository_is_refused_if_one_is_required() -> None:
    rows = [an_event(repository="DEMO/mergewatch"), an_event(repository="foreign/x")]
    own, foreign = to_lines(rows)
    assert read_event(own, clock(), DEMO).repository.key == DEMO.key
    with pytest.raises(RefusedEventError) as refused:
        read_event(foreign, clock(), DEMO)
    assert refused.value.reasons == ("repository: only events of demo/mergewatch are taken here",)


async def test_a_line_that_the_source_could_not_read_is_refused(store: Store) -> None:
    broken = Line(number=7, offset=90, data=b"", defect="the gzip data ends too early")
    refused: list[RefusedLine] = []
    count = await ingest_events(store, [broken], source="x.gz", refuse=refused.append, clock=clock)
    assert count == IngestCount(read=1, refused=1)
    assert refused == [RefusedLine("x.gz", broken, ("the gzip data ends too early",))]


async def test_progress_is_reported_after_each_batch(store: Store) -> None:
    told: list[tuple[int, int]] = []

    def tell(*, lines: int, offset: int) -> None:
        told.append((lines, offset))

    lines = to_lines(an_event(id=number) for number in range(2 * BATCH_EVENTS + 5))
    await ingest_events(
        store, lines, source="rows", refuse=nothing_is_refused, clock=clock, progress=tell
    )
    ends = [lines[2 * BATCH_EVENTS - 1], lines[BATCH_EVENTS - 1]]
    assert told == [(end.number, end.offset + len(end.data)) for end in reversed(ends)]


async def test_a_load_that_broke_off_is_finished_by_a_rerun(store: Store) -> None:
    class KilledError(Exception):
        pass

    def kill(*, lines: int, offset: int) -> None:
        raise KilledError

    lines = to_lines(an_event(id=number) for number in range(BATCH_EVENTS + 5))
    with pytest.raises(KilledError):
        await ingest_events(
            store, lines, source="rows", refuse=nothing_is_refused, clock=clock, progress=kill
        )
    count = await ingest_events(store, lines, source="rows", refuse=nothing_is_refused, clock=clock)
    assert count == IngestCount(read=BATCH_EVENTS + 5, written=5, unchanged=BATCH_EVENTS)


def test_counts_add_up() -> None:
    total = IngestCount(read=4, written=2, refused=2) + IngestCount(read=1, unchanged=1)
    assert total == IngestCount(read=5, written=2, unchanged=1, refused=2)


def test_a_dead_letter_holds_all_that_is_known_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "dead.ndjson"
    with DeadLetterFile(path) as dead:
        dead.write(RefusedLine("a.ndjson", Line(3, 40, '{"ä": 1}'.encode()), ("one", "two")))
        dead.write(RefusedLine("bad\udcff", Line(4, 50, b"\xff\x00"), ("no",)))
        dead.write(
            RefusedLine("-", Line(5, 60, "xx€".encode()[:-1], "too long", cut=True), ("too long",))
        )
    rows = [json.loads(row) for row in path.read_bytes().splitlines()]
    assert rows == [
        {
            "source": "a.ndjson",
            "line": 3,
            "offset": 40,
            "reason": "one; two",
            "raw": '{"ä": 1}',
        },
        {
            "source": "bad\\udcff",
            "line": 4,
            "offset": 50,
            "reason": "no",
            "raw_base64": base64.b64encode(b"\xff\x00").decode(),
        },
        {
            "source": "-",
            "line": 5,
            "offset": 60,
            "reason": "too long",
            "raw": "xx",
            "raw_cut": True,
        },
    ]


def test_a_dead_letter_file_never_overwrites_what_is_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"{}\n")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(DeadLetterError, match="one of the files to be read"):
        DeadLetterFile(tmp_path / "link", ["-", str(path)])
    assert path.read_bytes() == b"{}\n"


@pytest.mark.parametrize("name", [".", "missing/dead.ndjson"])
def test_a_dead_letter_file_that_cannot_be_made_is_refused_by_name(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(DeadLetterError, match=str(tmp_path)):
        DeadLetterFile(tmp_path / name)
