"""The basis of measurements: parsing wrk output, responses and profiles, and assigning cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.data.generated import MEASURED
from benchmarks.data.sizes import FULL
from benchmarks.load.answers import Answer, WrongAnswerError, read_answer
from benchmarks.load.wrk import LoadError, read_summary
from benchmarks.parts.bench import PATHS_A_SLICE, Bench, Conditions
from benchmarks.parts.throughput import check_agreement
from benchmarks.requests.operations import BY_NAME, QueriedRepository
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.profile import Share, summarise
from benchmarks.running.services import redis_running
from benchmarks.stacks import STACKS, Backends

SUMMARY = (
    '{"requests":3000,"microseconds":1500000,"bytes":9,"p50":2000,"p99":9000,'
    '"connect":0,"read":%d,"write":0,"status":0,"timeout":0}'
)


def test_a_summary_is_read_from_the_last_line() -> None:
    found = read_summary(f"Running 1s test\nRequests/sec: 1\n\n{SUMMARY % 0}\n")
    assert found.requests_per_second == pytest.approx(2_000)
    assert (found.p50, found.p99) == (0.002, 0.009)


@pytest.mark.parametrize("output", [SUMMARY % 1, "", "unable to connect to 127.0.0.1:1"])
def test_a_load_with_errors_or_without_a_summary_is_no_figure(output: str) -> None:
    with pytest.raises(LoadError):
        read_summary(output)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b'{"size":2,"per_page":2,"events":[1,2]}', 2),
        (b'{"quarantined_tests":[]}', 0),
        (b"[1,2,3]", 3),
        (b'{"took":1,"hits":{"hits":[1,2,3,4]}}', 4),
        (b'{"test_name":"a"}', 1),
    ],
)
def test_rows_are_counted_in_every_dialect(body: bytes, rows: int) -> None:
    assert read_answer(body, "") == Answer(len(body), rows, None)


@pytest.mark.parametrize(
    "link",
    [
        '<http://h/a?x=1>; rel="first", <http://h/a?cursor=n>; rel="next"',
        '<http://h/a?cursor=n>; rel="next"',
    ],
)
def test_the_next_page_is_found_whoever_links_to_it(link: str) -> None:
    assert read_answer(b"[]", link).next_path == "/a?cursor=n"


def test_a_stack_gets_other_requests_in_each_round(tmp_path: Path) -> None:
    # In the proportions of a full run: a period has room for two fifths of all tests.
    tests, count = FULL.store.tests // 100, PATHS_A_SLICE // 100
    backends = Backends(tmp_path, "redis://127.0.0.1/0", "http://127.0.0.1")
    queried = QueriedRepository(MEASURED, tests)
    conditions = Conditions(FULL, queried, "key", backends, tmp_path)
    bench = Bench(conditions, divide(available_cores(), 1), 1, {})
    detail = BY_NAME["detail"]
    stacks = [stack for stack in STACKS if stack.takes_part(detail, repeated=False)]
    earlier: set[tuple[str, str]] = set()
    for _ in range(FULL.rounds):
        for stack in stacks:
            # The fastest stack answers a sixth of what a period has room for.
            paths = bench.numbered_paths(stack, detail, count)[: count // 4]
            sent = {(stack.name, path) for path in paths}
            assert not sent & earlier
            earlier |= sent


def test_answers_that_disagree_are_no_comparison() -> None:
    check_agreement("detail", {"a": 1, "b": 1})
    with pytest.raises(WrongAnswerError):
        check_agreement("detail", {"a": 1, "b": 2})
    with pytest.raises(WrongAnswerError):
        check_agreement("detail", {"a": 0, "b": 0})


@pytest.mark.parametrize(
    ("available", "workers", "server", "client"),
    [
        ({0, 1}, 1, {0}, {1}),
        ({0, 1}, 2, {0, 1}, {0, 1}),
        ({3}, 1, {3}, {3}),
        ({0, 1, 2, 3}, 2, {0, 1}, {2, 3}),
    ],
)
def test_service_and_load_have_cores_of_their_own_where_there_are_enough(
    available: set[int], workers: int, server: set[int], client: set[int]
) -> None:
    cores = divide(frozenset(available), workers)
    assert set(cores.server) == server
    assert set(cores.client) == client
    assert cores.apart == (server != client)


def test_a_profile_has_own_and_cumulative_time() -> None:
    folded = [
        "main (/x/service/server.py:1);dump (/y/site-packages/pack/schema.py:5) 3",
        "main (/x/service/server.py:2);dump (/y/site-packages/pack/schema.py:9);f (a.py:1) 1",
        "main (/x/service/server.py:2) 6",
    ]
    found = summarise(folded, most=2)
    assert found.itself == (
        Share("main in service/server.py", 0.6),
        Share("dump in pack/schema.py", 0.3),
    )
    # All samples are below main, which carries no information.
    assert found.within == (
        Share("dump in pack/schema.py", 0.4),
        Share("f in a.py", 0.1),
    )


def test_a_profile_is_of_the_main_thread() -> None:
    beside = "Thread._bootstrap (/usr/lib/threading.py:966);_worker (/usr/lib/thread.py:81) 90"
    folded = [beside, "main (/x/service/server.py:1) 3", "read (/x/service/server.py:7) 1"]
    assert summarise(folded, most=2).itself == (
        Share("main in service/server.py", 0.75),
        Share("read in service/server.py", 0.25),
    )


def test_every_stack_has_a_name_of_its_own() -> None:
    assert len({stack.name for stack in STACKS}) == len(STACKS)


def test_a_server_on_the_cores_of_the_load_leaves_this_process_where_it_was(
    tmp_path: Path,
) -> None:
    before = available_cores()
    cores = divide(before, 1)
    with redis_running(tmp_path, cores):
        assert available_cores() == before
        # What is started now shares no core with the server, if there is more than one.
        assert divide(available_cores(), 1) == cores
