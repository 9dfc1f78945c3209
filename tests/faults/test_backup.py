"""A snapshot, restored under another prefix by the steps in docs/operations.md."""

from __future__ import annotations

import asyncio
import http
from pathlib import Path

from indexing.models.executions import Conclusion
from indexing.store import ElasticsearchPlace, create_lost_parts, open_store
from indexing.store.interface import ExecutionCount
from tests.builders import NOON, WIDGETS, after, make_event, make_executions, make_run
from tests.faults.stock import EVENTS, fill
from tests.servers.elasticsearch import Node
from tests.whole_state import read_all

REPOSITORY = "/_snapshot/backup"
SNAPSHOT = f"{REPOSITORY}/first?wait_for_completion=true"
RESTORE = f"{REPOSITORY}/first/_restore?wait_for_completion=true"


def test_a_snapshot_comes_back_whole_under_another_prefix(tmp_path: Path) -> None:
    with Node(tmp_path, settings={"path.repo": [str(tmp_path / "backup")]}) as node:
        before = ElasticsearchPlace((node.url,), "mergewatch")
        asyncio.run(fill(before))
        settings = {"type": "fs", "settings": {"location": str(tmp_path / "backup")}}
        answers = [node.ask(REPOSITORY, "PUT", settings)]
        chosen = {"indices": "mergewatch-*", "include_global_state": False}
        answers.append(node.ask(SNAPSHOT, "PUT", chosen))
        renamed = {
            "rename_pattern": "mergewatch-(.+)",
            "rename_replacement": "restored-$1",
            # Under their old names, aliases would point to both the old indices and the new ones.
            "include_aliases": False,
        }
        answers.append(node.ask(RESTORE, "POST", chosen | renamed))
        assert {status for status, _ in answers} == {http.HTTPStatus.OK}, answers

        restored = ElasticsearchPlace((node.url,), "restored")
        assert asyncio.run(create_lost_parts(restored)) == []
        assert asyncio.run(read_all(restored, [WIDGETS])) == asyncio.run(
            read_all(before, [WIDGETS])
        )
        # The snapshot has no index of this month, so the templates define the new one.
        assert asyncio.run(add_event(restored)) == EVENTS + 1
        # What the original has got since then is new to the copy.
        assert asyncio.run(add_result(before)) == ExecutionCount(1, 0)
        assert asyncio.run(add_result(restored)) == ExecutionCount(1, 0)
        assert asyncio.run(add_result(restored)) == ExecutionCount(0, 1)


async def add_event(place: ElasticsearchPlace) -> int:
    """Store an event of another month; return how many there are then."""
    store = await open_store(place)
    try:
        await store.write_events([make_event(EVENTS, after(days=40))])
        lines = [line for line in await read_all(place, [WIDGETS]) if line.startswith("EventRow")]
        return len(lines)
    finally:
        await store.close()


async def add_result(place: ElasticsearchPlace) -> ExecutionCount:
    """Store a result of a run; return what was written."""
    store = await open_store(place)
    try:
        run = make_run("since")
        results = {run: make_executions(run, [("test_since", Conclusion.PASSED)], NOON)}
        return await store.write_results(WIDGETS, results)
    finally:
        await store.close()
