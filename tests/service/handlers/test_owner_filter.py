"""The test search by owner: the parameter `owner`."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from indexing.models.executions import Conclusion
from indexing.owners import selecting
from indexing.owners.finding import Owners, OwnersReader
from service.handlers import code_owners
from service.middleware import timeout
from tests.builders import GADGETS, NOON, WIDGETS, after, make_executions, make_run
from tests.service.front_door import SEARCH, TESTS, FrontDoor
from tests.waiting import until

P, F = Conclusion.PASSED, Conclusion.FAILED
FILE = "* @all\n*.js @web @all\n/docs/\n"
FILES = {"a": "src/a.py", "b": "src/b.js", "c": "docs/c.py", "d": None}


@pytest.fixture(autouse=True)
async def filled(door: FrontDoor) -> None:
    await load(door, FILES)
    await door.store.set_code_owners(WIDGETS, FILE)


async def load(door: FrontDoor, files: Mapping[str, str | None], hour: int = 0) -> None:
    """Load a run of each of the tests, by the files that it names."""
    for name, path in files.items():
        run = make_run(f"{name} {hour}")
        result = (name, F if name == "b" else P)
        made = make_executions(run, [result], after(hours=hour), filepath=path)
        await door.store.write_results(WIDGETS, {run: made})
    await door.store.refresh_tests(NOON, repository=WIDGETS)


async def names(door: FrontDoor, query: str) -> str:
    answer = await door.get(f"{SEARCH}?test_name=*&sort=test_name&direction=asc&{query}")
    assert answer.status == 200, answer.body
    return "".join(row["test_name"] for row in answer.json["tests"])


def count_reads(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets an element whenever files are read from the store."""
    reads: list[Any] = []
    list_filepaths = door.reader.list_filepaths

    async def read(*about: Any) -> Any:
        reads.append(about)
        return await list_filepaths(*about)

    monkeypatch.setattr(door.reader, "list_filepaths", read)
    return reads


async def test_tests_of_any_of_the_owners_are_found(door: FrontDoor) -> None:
    assert await names(door, "owner=@all") == "ab"
    assert await names(door, "owner=@web") == "b"
    assert await names(door, "owner=@web&owner=@all") == "ab"
    assert await names(door, "owner=none") == "cd"
    assert await names(door, "owner=none&owner=@web") == "bcd"
    assert await names(door, "owner=@ALL") == ""
    assert await names(door, "owner=*") == ""


async def test_the_other_filters_apply_as_well(door: FrontDoor) -> None:
    assert await names(door, "owner=@all&health_status=broken") == "b"
    assert await names(door, "owner=@all&test_filepath=*.py") == "a"
    assert await names(door, "owner=none&test_filepath=*.py") == "c"
    assert await names(door, "owner=@all&test_name_exclude=a") == "b"
    assert await names(door, "owner=@all&quarantined=true") == ""
    assert await names(door, "owner=@all&quarantined=false&include=metrics") == "ab"


async def test_an_owner_has_as_many_tests_as_in_the_groups(door: FrontDoor) -> None:
    groups = (await door.get(f"{TESTS}/groups?by=owner")).json["groups"]
    assert {group["value"] for group in groups} == {"@all", "@web", None}
    for group in groups:
        owner = group["value"] or "none"
        answer = await door.get(f"{SEARCH}?test_name=*&include=total&owner={owner}")
        assert answer.json["total"] == group["tests"]


async def test_without_a_stored_file_no_test_has_an_owner(door: FrontDoor) -> None:
    await door.store.set_code_owners(WIDGETS, None)
    assert await names(door, "owner=@all") == ""
    assert await names(door, "owner=none") == "abcd"
    await door.store.set_code_owners(WIDGETS, "*.py\n")
    assert await names(door, "owner=@all") == ""
    assert await names(door, "owner=none") == "abcd"


async def test_changes_of_owners_and_of_files_show_at_once(door: FrontDoor) -> None:
    assert await names(door, "owner=@web") == "b"
    await door.store.set_code_owners(WIDGETS, f"{FILE}a.* @web")
    assert await names(door, "owner=@web") == "ab"
    await load(door, {"e": "src/e.js"}, hour=1)
    assert await names(door, "owner=@web") == "abe"
    await load(door, {"b": "src/b.py"}, hour=2)
    assert await names(door, "owner=@web") == "ae"


async def test_a_walk_meets_every_test_once_and_finds_the_files_once(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(door, {f"e{number}": f"src/{number}.js" for number in range(5)})
    reads = count_reads(door, monkeypatch)
    target = f"{SEARCH}?test_name=*&sort=test_name&direction=asc&per_page=2&owner=@web"
    pages = await door.walk(target, "tests")
    expected = ["b", *(f"e{number}" for number in range(5))]
    assert [row["test_name"] for page in pages for row in page] == expected
    assert len(reads) == 1
    following = (await door.get(target)).links["next"]
    answer = await door.get(f"{following}&owner=@all")
    assert answer.wrong_fields == [("query", "cursor")]


async def test_a_stream_has_the_rows_of_the_pages(door: FrontDoor) -> None:
    target = f"{SEARCH}?test_name=*&sort=test_name&direction=asc&owner=none"
    pages = await door.walk(f"{target}&per_page=1", "tests")
    answer = await door.get(target, Accept="application/x-ndjson")
    rows = [orjson.loads(line) for line in answer.body.splitlines()]
    assert [row["test_name"] for row in rows] == ["c", "d"]
    assert rows == [row for page in pages for row in page]
    table = await door.get(target, Accept="text/csv")
    assert [line.split(",")[1] for line in table.body.decode().splitlines()[1:]] == ["c", "d"]


async def test_files_are_read_in_steps_and_only_if_they_matter(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = count_reads(door, monkeypatch)
    monkeypatch.setattr(code_owners, "_FIRST_PATHS", 1)
    monkeypatch.setattr(code_owners, "_MOST_PATHS", 2)
    assert await names(door, "owner=@all") == "ab"
    assert reads == [(WIDGETS, None, 1), (WIDGETS, "docs/c.py", 2), (WIDGETS, "src/b.js", 2)]
    # All owners share the list.
    assert await names(door, "owner=@web") == "b"
    assert len(reads) == 3
    monkeypatch.setattr(code_owners, "_CHARACTERS", 1)
    await load(door, {"e": "src/e.js"})
    assert await names(door, "owner=@nobody") == ""
    assert len(reads) == 3
    assert await names(door, "owner=@web") == "be"
    assert [limit for _, _, limit in reads[3:]] == [1, 1, 1, 1, 1]


async def test_a_repository_with_too_many_files_is_refused(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_owners, "_FIRST_PATHS", 1)
    monkeypatch.setattr(code_owners, "_MOST_CHARACTERS", 10)
    answer = await door.get(f"{SEARCH}?test_name=*&owner=@web")
    assert (answer.status, answer.wrong_fields) == (422, [("query", "owner")])


@pytest.mark.parametrize("limit", ["MAX_FILES", "MAX_CHARACTERS"])
async def test_owners_of_too_many_files_are_refused(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(selecting, limit, {"MAX_FILES": 1, "MAX_CHARACTERS": 10}[limit])
    assert await names(door, "owner=@web") == "b"
    for accept in ("application/json", "text/csv"):
        answer = await door.get(f"{SEARCH}?test_name=*&owner=@all", Accept=accept)
        assert (answer.status, answer.wrong_fields) == (422, [("query", "owner")])


@pytest.mark.parametrize(
    "query",
    ["owner=", f"owner={'x' * 256}", "&".join(f"owner=@{n}" for n in range(500))],
    ids=["empty", "long", "many"],
)
async def test_owners_have_limits(door: FrontDoor, query: str) -> None:
    answer = await door.get(f"{SEARCH}?test_name=*&{query}")
    assert (answer.status, answer.wrong_fields) == (422, [("query", "owner")])


async def test_a_file_that_costs_too_much_is_a_503_and_what_was_found_is_kept(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file that no other test has made the process read.
    await door.store.set_code_owners(WIDGETS, f"# {door.base}\n[as]*.py @x\n[abs]*.js @x")
    tried: list[str | None] = []
    find = Owners.find
    now = 0.0

    def find_slowly(owners: Owners, path: str | None, check: Any) -> Any:
        nonlocal now
        tried.append(path)
        found = find(owners, path, check)
        if len(tried) == 1:
            now = 1e9
        return found

    monkeypatch.setattr(Owners, "find", find_slowly)
    monkeypatch.setattr(code_owners, "time", SimpleNamespace(monotonic=lambda: now))
    answer = await door.get(f"{SEARCH}?test_name=*&owner=@x")
    assert answer.status == 503
    assert answer.headers["Retry-After"]
    assert await names(door, "owner=@x") == "ab"


@pytest.mark.slow
async def test_a_file_that_takes_long_to_read_is_read_once_for_later_requests(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, released = 0, threading.Event()
    read = OwnersReader.read

    def read_slowly(reader: OwnersReader, seconds: float) -> Owners | None:
        nonlocal reads
        reads += 1
        assert released.wait(30)
        return read(reader, seconds)

    monkeypatch.setattr(OwnersReader, "read", read_slowly)
    monkeypatch.setattr(code_owners, "READ_SECONDS", 0.5)
    for _ in range(3):
        answer = await door.get(f"{SEARCH}?test_name=*&owner=@all")
        assert (answer.status, reads) == (503, 1)
    monkeypatch.undo()
    released.set()
    assert await names(door, "owner=@all") == "ab"


async def test_a_file_that_takes_long_to_read_lets_other_requests_pass(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (code_owners, timeout):
        monkeypatch.setattr(module, "READ_SECONDS", 60.0)
    long: list[OwnersReader] = []
    turns, is_released = 0, False
    read = OwnersReader.read

    def read_for_ever(reader: OwnersReader, seconds: float) -> Owners | None:
        nonlocal turns
        if not long:
            long.append(reader)
        if reader is not long[0] or is_released:
            return read(reader, seconds)
        turns += 1
        return None

    monkeypatch.setattr(OwnersReader, "read", read_for_ever)
    await door.store.ensure_repository(GADGETS)
    await door.store.set_code_owners(GADGETS, "/a.py @x")
    target = SEARCH.replace("widgets", "gadgets") + "?test_name=*&owner=@x"
    waiting = asyncio.create_task(door.get(target))
    await until(lambda: turns > 1)
    assert await names(door, "owner=@all") == "ab"
    assert not waiting.done()
    is_released = True
    assert (await waiting).status == 200


async def test_a_request_that_times_out_in_the_queue_leaves_nothing_behind(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code_owners, "READ_SECONDS", 0.05)
    async with door.app[code_owners.OWNER_SLOTS].slot("another tenant"):
        for _ in range(3):
            assert (await door.get(f"{SEARCH}?test_name=*&owner=@all")).status == 503
    monkeypatch.undo()
    assert await names(door, "owner=@all") == "ab"
    gc.collect()
    assert not [line for line in caplog.records if line.name == "asyncio"]


async def test_one_thread_at_a_time_looks_for_owners(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = 0, 0
    begun, released = threading.Event(), threading.Event()
    take = selecting.FileSelector.take

    def take_slowly(selector: selecting.FileSelector, *about: Any) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        begun.set()
        assert released.wait(30)
        running -= 1
        return take(selector, *about)

    monkeypatch.setattr(selecting.FileSelector, "take", take_slowly)
    owners = ("@all", "@web", "none")
    asked = [asyncio.create_task(names(door, f"owner={owner}")) for owner in owners]
    await until(begun.is_set)
    # A request that needs no owners is answered meanwhile.
    assert await names(door, "test_filepath=*.js") == "b"
    released.set()
    assert await asyncio.gather(*asked) == ["ab", "b", "cd"]
    assert most == 1
