"""Small versions of the `make harden` scenarios: the quick and deterministic parts.

Whatever takes long, or is measured in seconds, is left to `make harden` itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Self

import pytest

from hardening import seeding
from hardening.findings import Finding
from hardening.harness import Harness
from hardening.scenarios import (
    backups,
    credentials,
    cursors,
    cut_file,
    full_disk,
    grown_lists,
    growth,
    header_injection,
    hidden_repositories,
    matrix_history,
    numbers_and_texts,
    open_tails,
    redis_faults,
    redis_modes,
    repository_isolation,
    schema_cases,
    search_for_credentials,
    shared_file,
    sigterm,
    wrong_clocks,
)

SQLITE = ("sqlite",)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    opened = Harness(tmp_path / "harness" / "one")
    yield opened
    opened.close()


def assert_all_hold(findings: list[Finding]) -> None:
    assert findings
    assert [str(finding) for finding in findings if not finding.holds] == []


async def test_every_bad_credential_gets_the_same_response(harness: Harness) -> None:
    assert_all_hold(await credentials.run(harness, stores=SQLITE))


async def test_a_hidden_repository_is_byte_identical_to_an_absent_one(harness: Harness) -> None:
    findings = await hidden_repositories.run(harness, pairs=40, stores=SQLITE)
    # The time limit is for a machine that does nothing else.
    assert [finding.figure for finding in findings if ": 0 differ" not in finding.figure] == []


async def test_no_altered_cursor_is_accepted(harness: Harness) -> None:
    assert_all_hold(await cursors.run(harness, cursors=3, stores=SQLITE))


async def test_no_header_is_injected(harness: Harness) -> None:
    assert_all_hold(await header_injection.run(harness))


async def test_numbers_and_texts_are_kept_exactly_or_refused(harness: Harness) -> None:
    assert_all_hold(await numbers_and_texts.run(harness, stores=SQLITE))


async def test_no_data_leaks_between_repositories(harness: Harness) -> None:
    assert_all_hold(await repository_isolation.run(harness, requests=2_000, stores=SQLITE))


async def test_no_client_is_cut_off_by_a_graceful_shutdown(harness: Harness) -> None:
    assert_all_hold(await sigterm.run(harness, rounds=2))


async def test_live_tails_share_one_poll_miss_nothing_and_end_in_order(harness: Harness) -> None:
    found = await open_tails.run(harness, tails=6, dashboard_tails=2, seconds=1)
    # Times and memory are measured with 1,000 tails.
    assert_all_hold([found[1], *found[3:]])


async def test_no_request_fails_for_redis(harness: Harness) -> None:
    assert_all_hold(await redis_faults.run(harness, times=2))


async def test_two_loads_and_a_reader_share_a_file(harness: Harness) -> None:
    assert_all_hold(await shared_file.run(harness, events=2_000))


async def test_a_full_disk_loses_nothing_that_was_acknowledged(harness: Harness) -> None:
    findings = await full_disk.run(harness, size=2 * 2**20)
    # Mounting a disk needs privileges; a file with a size limit works everywhere.
    assert_all_hold([finding for finding in findings if finding.figure != full_disk.NOT_RUN])


async def test_a_truncated_file_gives_no_wrong_response(harness: Harness) -> None:
    assert_all_hold(await cut_file.run(harness, repositories=4, cuts=(100, 0.5)))


async def test_generated_requests_get_documented_responses(harness: Harness) -> None:
    assert_all_hold(await schema_cases.run(harness, cases=10, stores=SQLITE))


async def test_a_matrix_that_failed_long_ago_loads_rebuilds_and_prunes(harness: Harness) -> None:
    assert_all_hold(await matrix_history.run(harness, tests=6, jobs=(2,), stores=SQLITE))


async def test_results_of_wrong_clocks_are_refused_by_name(harness: Harness) -> None:
    assert_all_hold(await wrong_clocks.run(harness, stores=SQLITE))


async def test_a_list_that_grew_a_second_page_is_another_answer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.time()

    class Still(datetime):
        """On a fast machine, a service starts in the second in which its store was filled."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(started, tz)

    for module in (seeding, grown_lists):
        monkeypatch.setattr(module, "datetime", Still)
    assert_all_hold(await grown_lists.run(harness, stores=SQLITE))


async def test_a_backup_under_load_restores_to_all_that_was_acknowledged(harness: Harness) -> None:
    findings = await backups.run(harness, times=1, clients=2, pause=0.1)
    # The longest wait is for a machine that does nothing else.
    assert_all_hold(findings[:1])


async def test_a_redis_that_refuses_causes_one_warning(harness: Harness) -> None:
    findings = await redis_modes.run(harness, writes=3, modes=redis_modes.MODES[1:3])
    assert_all_hold([finding for finding in findings if finding.what.startswith("Redis")])


@pytest.mark.parametrize(("power", "holds"), [(1.0, True), (1.2, True), (1.5, False), (2.0, False)])
async def test_superlinear_cost_does_not_hold(power: float, holds: bool) -> None:
    async def send(count: int) -> float:
        return float(count**power)

    assert (await growth.measure("things", 100, send, 2, [])).holds is holds


async def test_a_failed_request_is_no_measure_of_growth() -> None:
    async def send(_: int) -> float:
        return 1.0

    assert not (await growth.measure("things", 100, send, 1, ["503"])).holds


async def test_no_credential_is_left_behind(harness: Harness) -> None:
    assert_all_hold(await search_for_credentials.run(harness, stores=SQLITE))


def test_a_credential_that_was_left_behind_is_found(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 2**20 + b"mw_secret".hex().encode())
    found, files, _ = search_for_credentials.search(tmp_path, ["mw_secret"])
    assert (len(found), files) == (1, 1)
    found, _, _ = search_for_credentials.search(tmp_path, ["mw_another"])
    assert found == []
