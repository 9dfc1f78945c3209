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

from hardening import stock
from hardening.findings import Finding
from hardening.ground import Ground
from hardening.scenarios import (
    backups,
    credentials,
    crossings,
    cursors,
    cut_file,
    full_disk,
    grown_lists,
    growth,
    header_injection,
    hidden_repositories,
    matrix_history,
    numbers_and_texts,
    redis_faults,
    redis_modes,
    schema_cases,
    search_for_credentials,
    shared_file,
    sigterm,
    wrong_clocks,
)

SQLITE = ("sqlite",)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    opened = Ground(tmp_path / "ground" / "one")
    yield opened
    opened.close()


def assert_all_hold(findings: list[Finding]) -> None:
    assert findings
    assert [str(finding) for finding in findings if not finding.holds] == []


async def test_every_bad_credential_is_answered_alike(ground: Ground) -> None:
    assert_all_hold(await credentials.run(ground, stores=SQLITE))


async def test_a_hidden_repository_is_to_the_byte_like_an_absent_one(ground: Ground) -> None:
    findings = await hidden_repositories.run(ground, pairs=40, stores=SQLITE)
    # The time limit is for a machine that does nothing else.
    assert [finding.figure for finding in findings if ": 0 differ" not in finding.figure] == []


async def test_no_altered_cursor_is_taken(ground: Ground) -> None:
    assert_all_hold(await cursors.run(ground, cursors=3, stores=SQLITE))


async def test_no_header_is_injected(ground: Ground) -> None:
    assert_all_hold(await header_injection.run(ground))


async def test_numbers_and_texts_are_kept_exactly_or_refused(ground: Ground) -> None:
    assert_all_hold(await numbers_and_texts.run(ground, stores=SQLITE))


async def test_nothing_crosses_between_repositories(ground: Ground) -> None:
    assert_all_hold(await crossings.run(ground, requests=2_000, stores=SQLITE))


async def test_nobody_is_cut_off_by_a_service_that_ends(ground: Ground) -> None:
    assert_all_hold(await sigterm.run(ground, rounds=2))


async def test_no_request_fails_for_redis(ground: Ground) -> None:
    assert_all_hold(await redis_faults.run(ground, times=2))


async def test_two_loads_and_a_reader_share_a_file(ground: Ground) -> None:
    assert_all_hold(await shared_file.run(ground, events=2_000))


async def test_a_full_disk_loses_nothing_that_was_acknowledged(ground: Ground) -> None:
    findings = await full_disk.run(ground, size=2 * 2**20)
    # Mounting a disk needs privileges; a file with a size limit works everywhere.
    assert_all_hold([finding for finding in findings if finding.figure != full_disk.NOT_RUN])


async def test_a_file_that_was_cut_short_gives_no_wrong_answer(ground: Ground) -> None:
    assert_all_hold(await cut_file.run(ground, repositories=4, cuts=(100, 0.5)))


async def test_whatever_is_made_up_is_answered_as_documented(ground: Ground) -> None:
    assert_all_hold(await schema_cases.run(ground, cases=10, stores=SQLITE))


async def test_a_matrix_that_failed_long_ago_loads_rebuilds_and_prunes(ground: Ground) -> None:
    assert_all_hold(await matrix_history.run(ground, tests=6, jobs=(2,), stores=SQLITE))


async def test_results_of_wrong_clocks_are_refused_by_name(ground: Ground) -> None:
    assert_all_hold(await wrong_clocks.run(ground, stores=SQLITE))


async def test_a_list_that_grew_a_second_page_is_another_answer(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.time()

    class Still(datetime):
        """On a fast machine, a service starts in the second in which its store was filled."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(started, tz)

    for module in (stock, grown_lists):
        monkeypatch.setattr(module, "datetime", Still)
    assert_all_hold(await grown_lists.run(ground, stores=SQLITE))


async def test_a_backup_under_load_restores_to_all_that_was_acknowledged(ground: Ground) -> None:
    findings = await backups.run(ground, times=1, clients=2, pause=0.1)
    # The longest wait is for a machine that does nothing else.
    assert_all_hold(findings[:1])


async def test_a_redis_that_refuses_is_said_so_once(ground: Ground) -> None:
    findings = await redis_modes.run(ground, writes=3, modes=redis_modes.MODES[1:3])
    assert_all_hold([finding for finding in findings if finding.what.startswith("Redis")])


@pytest.mark.parametrize(("power", "holds"), [(1.0, True), (1.2, True), (1.5, False), (2.0, False)])
async def test_what_costs_more_than_there_is_of_it_does_not_hold(power: float, holds: bool) -> None:
    async def send(count: int) -> float:
        return float(count**power)

    assert (await growth.measure("things", 100, send, 2, [])).holds is holds


async def test_a_failed_request_is_no_measure_of_growth() -> None:
    async def send(_: int) -> float:
        return 1.0

    assert not (await growth.measure("things", 100, send, 1, ["503"])).holds


async def test_no_credential_is_left_behind(ground: Ground) -> None:
    assert_all_hold(await search_for_credentials.run(ground, stores=SQLITE))


def test_a_credential_that_was_left_behind_is_found(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 2**20 + b"mw_secret".hex().encode())
    found, files, _ = search_for_credentials.search(tmp_path, ["mw_secret"])
    assert (len(found), files) == (1, 1)
    found, _, _ = search_for_credentials.search(tmp_path, ["mw_another"])
    assert found == []
