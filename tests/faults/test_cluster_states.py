"""A node that refuses requests: the sender keeps the data, and the operator reads the reason.

The node has the smallest heap of all tests and many search threads, so no cluster allows fewer
clauses in a query.
"""

from __future__ import annotations

import asyncio
import http
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from click.testing import CliRunner, Result

from indexing.errors import StoreUnavailableError
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.elasticsearch.indices.slices import slice_of
from indexing.store.interface import Store
from indexing.timestamps import format_timestamp
from service.auth.api_keys import make_key
from service.cli import main
from tests.builders import NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.faults.serving import serving
from tests.places import settings_of
from tests.servers.elasticsearch import Node
from tests.servers.folder import server_folder
from tests.service.front_door import LOGS, SEARCH

_PREFIXES = (f"states-{number}" for number in itertools.count())

# Commands use the clock of this machine.
TODAY = datetime.now(UTC)
# Not at the end of a month: one second later is still the same month.
LONG_AGO = (TODAY - timedelta(days=300)).replace(day=2)

REPORT = f"""\
<testsuite name="s" timestamp="{format_timestamp(TODAY)}"><testcase name="t" time="1"/></testsuite>
"""


@dataclass(frozen=True)
class Place:
    """An empty prefix in the node, and the actions of a test there."""

    node: Node
    at: ElasticsearchPlace

    def settle(self, **settings: object) -> None:
        status, told = self.node.ask("/_cluster/settings", "PUT", {"persistent": settings})
        assert status == http.HTTPStatus.OK, told

    @contextmanager
    def under(self, setting: str, value: object) -> Iterator[None]:
        """Apply a cluster setting until the block ends."""
        self.settle(**{setting: value})
        try:
            yield
        finally:
            self.settle(**{setting: None})

    @contextmanager
    def blocked(self, index: str, block: str) -> Iterator[None]:
        """Block one index until the block ends."""
        name = f"/{self.at.prefix}-{index}/_settings"
        assert self.node.ask(name, "PUT", {f"index.blocks.{block}": True})[0] == 200
        try:
            yield
        finally:
            assert self.node.ask(name, "PUT", {f"index.blocks.{block}": None})[0] == 200

    def count_shards(self) -> int:
        _, health = self.node.ask("/_cluster/health")
        return int(health["active_shards"] + health["unassigned_shards"])

    def run(self, *arguments: object) -> Result:
        return CliRunner().invoke(
            main, list(map(str, arguments)), env=settings_of(self.at), catch_exceptions=False
        )

    def over_store(self, work: Callable[[Store], Any]) -> Any:
        async def run() -> Any:
            store = await open_store(self.at)
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(run())


@pytest.fixture(scope="module")
def small_node() -> Iterator[Node]:
    settings = {"thread_pool.search.size": 64}
    with (
        server_folder() as folder,
        Node(Path(folder), heap="256m", settings=settings) as node,
    ):
        yield node


@pytest.fixture
def place(small_node: Node) -> Iterator[Place]:
    prefix = next(_PREFIXES)
    yield Place(small_node, ElasticsearchPlace((small_node.url,), prefix))
    small_node.ask(f"/{prefix}-*", "DELETE")


def write_events(folder: Path, *moments: datetime) -> Path:
    file = folder / "events.ndjson"
    lines: list[dict[str, Any]] = [
        {
            "id": number,
            "received_at": format_timestamp(moment),
            "trigger": "rule",
            "repository": "acme/widgets",
            "pull_request": None,
            "base_ref": None,
            "type": "action.rebase",
            "metadata": {},
        }
        for number, moment in enumerate(moments)
    ]
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return file


def report_arguments(folder: Path) -> list[str]:
    file = folder / "report.xml"
    file.write_text(REPORT, encoding="utf-8")
    names = "--repository acme/widgets --branch main --commit c --pipeline p --job j --run-id 1"
    return ["ingest", "junit", str(file), *names.split()]


def test_a_cluster_that_creates_and_deletes_by_name_alone_takes_everything(
    place: Place, tmp_path: Path
) -> None:
    strict = place.under("action.destructive_requires_name", value=True)
    with place.under("action.auto_create_index", "false"), strict:
        events = write_events(tmp_path, TODAY, LONG_AGO)
        loaded = place.run("ingest", "events", events)
        assert (loaded.exit_code, "written 2" in loaded.output) == (0, True), loaded.output
        reported = place.run(*report_arguments(tmp_path))
        assert reported.exit_code == 0, reported.output
        assert place.run("index", "rebuild").exit_code == 0
        pruned = place.run("index", "prune")
        assert (pruned.exit_code, "dropped 1 event and" in pruned.output) == (0, True), (
            pruned.output
        )


def test_at_the_limit_of_shards_loads_are_unavailable_and_nothing_is_dead_lettered(
    place: Place, tmp_path: Path
) -> None:
    assert place.run("index", "create").exit_code == 0
    events = write_events(tmp_path, TODAY)
    dead = tmp_path / "dead.ndjson"
    with place.under("cluster.max_shards_per_node", place.count_shards()):
        loads = (
            place.run("ingest", "events", events, "--dead-letter", dead),
            place.run(*report_arguments(tmp_path)),
        )
        rebuilt = place.run("index", "rebuild")
    for load, kind in zip(loads, ("events", "executions"), strict=True):
        assert load.exit_code == 1
        assert "the store is unavailable" in load.output
        assert f"{place.at.prefix}-{kind}-{slice_of(TODAY)}" in load.output
        assert "maximum normal shards open" in load.output
    assert (rebuilt.exit_code, "maximum normal shards open" in rebuilt.output) == (1, True)
    assert not dead.exists() or dead.read_bytes() == b""
    # The refused loads left no unfinished work.
    assert re.search(r"stale tests +0\n", place.run("index", "status").output)
    # With the limit lifted, the same loads succeed.
    assert place.run("ingest", "events", events).exit_code == 0
    assert place.run(*report_arguments(tmp_path)).exit_code == 0


@pytest.mark.parametrize(
    ("block", "told"),
    [("write", "index write (api)"), ("read_only_allow_delete", "flood-stage watermark")],
)
def test_a_block_of_one_old_month_is_named_and_nothing_is_dead_lettered(
    place: Place, tmp_path: Path, block: str, told: str
) -> None:
    first = write_events(tmp_path, LONG_AGO)
    assert place.run("ingest", "events", first).exit_code == 0
    both = write_events(tmp_path, LONG_AGO + timedelta(seconds=1), TODAY)
    dead = tmp_path / "dead.ndjson"
    index = f"events-{slice_of(LONG_AGO)}"
    with place.blocked(index, block):
        load = place.run("ingest", "events", both, "--dead-letter", dead)
    assert load.exit_code == 1
    assert "the store is unavailable" in load.output
    assert f"{place.at.prefix}-{index}" in load.output
    assert told in load.output
    assert not dead.exists() or dead.read_bytes() == b""
    assert place.run("ingest", "events", both).exit_code == 0


async def test_clients_get_retry_after_but_no_reason_of_the_cluster(
    place: Place, tmp_path: Path
) -> None:
    text, record = make_key(
        key_id="k",
        name="states",
        scope=Scope.ADMIN,
        owner="acme",
        repository=None,
        created_at=NOON,
    )
    store = await open_store(place.at)
    try:
        await load_names(store, ["test_one"])
        await store.add_key(record)
    finally:
        await store.close()
    events = write_events(tmp_path, TODAY).read_bytes()
    headers = {"Authorization": f"Bearer {text}", "Content-Type": "application/x-ndjson"}
    with serving(place.at, MERGEWATCH_INGEST="true") as running:
        async with aiohttp.ClientSession(running.base, headers=headers) as client:
            limit = place.count_shards()
            with place.under("cluster.max_shards_per_node", limit):
                async with client.post(LOGS, data=events) as answer:
                    said = await answer.text()
                    assert answer.status == 503, said
                    assert int(answer.headers["Retry-After"]) > 0
                    assert "shard" not in said
            async with client.post(LOGS, data=events) as answer:
                assert answer.status == 200, await answer.text()
            # The setting changes while the service runs.
            with place.under("search.allow_expensive_queries", "false"):
                async with client.get(f"{SEARCH}?test_name=test_o*") as answer:
                    said = await answer.text()
                    assert answer.status == 503, said
                    assert int(answer.headers["Retry-After"]) > 0
                    assert "expensive" not in said
                async with client.get(f"{SEARCH}?test_name=test_one") as answer:
                    assert answer.status == 200, await answer.text()
            async with client.get(f"{SEARCH}?test_name=test_o*") as answer:
                assert answer.status == 200, await answer.text()


def test_a_cluster_that_runs_no_patterns_is_warned_of_and_searches_say_so(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    setting = "search.allow_expensive_queries"

    async def search(store: Store) -> None:
        await store.search_tests(TestQuery(WIDGETS, ("test_o*",)), Anchor(), 10)

    place.over_store(lambda store: load_names(store, ["test_one"]))
    assert setting not in caplog.text
    with place.under(setting, "false"), pytest.raises(StoreUnavailableError, match=setting):
        place.over_store(search)
    assert setting in caplog.text
    place.over_store(search)


def test_a_matrix_of_old_failures_loads_rebuilds_and_prunes(place: Place) -> None:
    """500 tests in 4 jobs; each failed once, 40 days ago, and passes now."""
    names = [f"suite.test_{number:03}" for number in range(500)]
    # No two tests share a window or a failure.
    seconds = [timedelta(seconds=number) for number in range(500)]

    async def load(store: Store, commit: str, conclusion: Conclusion, at: datetime) -> None:
        for job in range(4):
            run = make_run(commit, job=f"job-{job}", commit=commit)
            executions = [
                execution
                for name, later in zip(names, seconds, strict=True)
                for execution in make_executions(run, [(name, conclusion)], at + later)
            ]
            await store.write_results(WIDGETS, {run: executions})

    async def live(store: Store) -> None:
        await store.ensure_repository(WIDGETS)
        await load(store, "old", Conclusion.FAILED, after(days=-40))
        assert await store.refresh_tests(NOON) == 500
        await load(store, "new", Conclusion.PASSED, NOON)
        assert await store.refresh_tests(NOON) == 500
        await load(store, "newer", Conclusion.PASSED, after(hours=1))
        assert await store.refresh_tests(NOON) == 500
        assert await store.rebuild(NOON) == 500
        assert (await store.prune(after(days=-50), NOON)).executions == 0
        assert (await store.prune(after(days=-30), NOON)).executions == 2_000
        assert (await store.get_status(NOON)).stale_tests == 0
        for name, later in zip(names[::100], seconds[::100], strict=True):
            detail = await store.get_test(WIDGETS, derive_test_id(WIDGETS, name))
            assert detail is not None
            assert detail.health.first_failure_at == after(days=-40) + later
            assert detail.health.last_success_at == after(hours=1) + later

    place.over_store(live)
