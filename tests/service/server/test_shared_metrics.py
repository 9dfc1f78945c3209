"""Several workers, scraped at any of them: the metrics are those of all."""

from __future__ import annotations

import http.client
import os
import signal
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from indexing.models.keys import Scope
from service.auth.api_keys import make_key
from service.server.shared_folder import NoFolderError, shared_folder
from service.server.shared_metrics import SPACE, drop_gauges, make_files
from tests.builders import NOON, WIDGETS
from tests.full_disk import limit_of_files
from tests.new_stores import open_new_store
from tests.service.front_door import operations
from tests.service.processes import TIMEOUT, Service, Start, port_of

LIVE = ("mergewatch_requests_total", "other", "200")
HITS = ("mergewatch_response_cache_hits_total",)
Samples = dict[tuple[str, ...], float]
FolderOf = Callable[[], Path]


@pytest.fixture
def folder_of(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> FolderOf:
    """Finds the folder of the service's metrics."""
    place = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(place))
    return lambda: next(place.iterdir())


class Workers:
    """Two workers; each request opens a connection of its own, which any of them accepts."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.scrapes = 0
        lines = [service.next_line("listening") for _ in range(2)]
        self.pids = [line["pid"] for line in lines]
        self.port = port_of(lines[0])

    def get(
        self, target: str, statuses: Collection[int] = frozenset({200}), **headers: str
    ) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            assert answer.status in statuses
            return answer.read()
        finally:
            connection.close()

    def scrape(self) -> Samples:
        self.scrapes += 1
        families = text_string_to_metric_families(self.get("/metrics").decode())
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    def scrape_until(self, name: tuple[str, ...], value: float) -> None:
        """Scrape until a metric has at least this value: a page may be an earlier one."""
        while self.scrape()[name] < value:
            pass

    def scrape_new(self, asked: int) -> None:
        """Scrape until a page counts all requests: those `asked`, and the scrapes before it."""
        while (counted := self.scrape()[LIVE]) < (expected := asked + self.scrapes - 1):
            pass
        assert counted == expected

    def replace_one(self) -> None:
        """Kill a worker, and wait for the next."""
        os.kill(self.pids.pop(0), signal.SIGKILL)
        self.pids.append(self.service.next_line("listening")["pid"])


@pytest.fixture
async def key(tmp_path: Path) -> str:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    text, record = make_key(
        key_id="k", name="k", scope=Scope.READ, owner="acme", repository=None, created_at=NOON
    )
    await store.add_key(record)
    await store.close()
    return text


def test_every_worker_answers_with_the_metrics_of_all(start: Start) -> None:
    workers = Workers(start(MERGEWATCH_WORKERS="2", MERGEWATCH_METRICS="true"))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(workers.get, ["/health/live"] * 200))
    for _ in range(20):
        workers.scrape_new(200)
    assert workers.service.stop() == 0


def test_no_sum_goes_down_when_workers_are_killed(start: Start) -> None:
    workers = Workers(start(MERGEWATCH_WORKERS="2", MERGEWATCH_METRICS="true"))
    asked = 0
    for _ in range(3):
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(workers.get, ["/health/live"] * 50))
        asked += 50
        workers.replace_one()
        for _ in range(5):
            workers.scrape_new(asked)
    assert workers.service.stop() == 0


def test_named_repositories_have_their_metrics_at_every_worker(start: Start, key: str) -> None:
    assert key
    workers = Workers(
        start(
            MERGEWATCH_WORKERS="2",
            MERGEWATCH_METRICS="true",
            MERGEWATCH_METRICS_REPOSITORIES="acme/widgets",
        )
    )
    for _ in range(10):
        assert workers.scrape()["mergewatch_quarantined_tests", "acme/widgets"] == 0
    assert workers.service.stop() == 0


def test_what_was_copied_outlives_its_worker(start: Start, key: str) -> None:
    workers = Workers(start(MERGEWATCH_WORKERS="2", MERGEWATCH_METRICS="true"))
    target, authorization = operations()["quarantines"], f"Bearer {key}"
    for _ in range(40):
        workers.get(target, Authorization=authorization)
    # Each of them may count a second later.
    while (hits := workers.scrape()[HITS]) < 20:
        pass
    for _ in range(2):
        workers.replace_one()
        workers.scrape_until(HITS, hits)
    assert workers.service.stop() == 0


def test_gauges_of_a_dead_worker_are_dropped(start: Start, folder_of: FolderOf) -> None:
    workers = Workers(start(MERGEWATCH_WORKERS="2", MERGEWATCH_METRICS="true"))
    folder = folder_of()
    workers.scrape()
    before = {path.name for path in folder.iterdir()}
    assert "gauge_livesum_0.db" in before
    for _ in range(3):
        workers.replace_one()
        assert workers.scrape()["mergewatch_waiting_requests",] == 0
    # Nor does the number of files grow.
    assert {path.name for path in folder.iterdir()} == before
    assert workers.service.stop() == 0
    assert not folder.exists()


def test_a_dead_worker_keeps_its_counts_and_loses_its_gauges(tmp_path: Path) -> None:
    files = (
        ("counter_0.db", True),
        ("gauge_livesum_0.db", False),
        ("gauge_livesum_1.db", True),
        ("histogram_0.db", True),
    )
    for name, _ in files:
        (tmp_path / name).write_bytes(b"\x10" + bytes(15))
    drop_gauges(tmp_path, 0)
    for name, is_kept in files:
        assert (tmp_path / name).stat().st_size == 16
        assert (tmp_path / name).read_bytes().startswith(b"\x10") == is_kept


def test_no_worker_needs_space_for_its_metrics(start: Start, folder_of: FolderOf) -> None:
    workers = Workers(
        start(MERGEWATCH_WORKERS="2", MERGEWATCH_METRICS="true", MERGEWATCH_INGEST="true")
    )
    folder = folder_of()
    targets = [*operations().values(), "/openapi.json", "/health/ready", "/nothing", "/ui/"]
    for target in 4 * targets:
        workers.get(target, {403, 404, 422, 200, 303})
    workers.replace_one()
    workers.scrape()
    made = {f"{kind}_{number}.db": size for kind, size in SPACE.items() for number in range(2)}
    found = {path.name: path.stat() for path in folder.iterdir()}
    assert {name: each.st_size for name, each in found.items()} == made
    # A file that was only made longer has fewer blocks.
    assert all(each.st_blocks * 512 >= each.st_size for each in found.values())
    assert workers.service.stop() == 0


def test_files_without_room_are_one_clear_line(tmp_path: Path) -> None:
    with (
        pytest.raises(NoFolderError, match=r"metrics of 2 workers.*TMPDIR"),
        limit_of_files(max(SPACE.values()) - 1),
    ):
        make_files(tmp_path, 2)


def test_one_worker_makes_no_folder(start: Start, folder_of: FolderOf) -> None:
    service = start(MERGEWATCH_METRICS="true")
    service.next_line("listening")
    with pytest.raises(StopIteration):
        folder_of()
    assert service.stop() == 0


def test_a_missing_place_for_the_folder_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    folder = shared_folder("metrics")
    with pytest.raises(NoFolderError, match="TMPDIR"):
        folder.__enter__()
