"""Automatic quarantine in any store: it follows the state after a load, never overrides people."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.models.executions import Conclusion, Run
from indexing.models.paging import Anchor
from indexing.models.quarantines import (
    QuarantineQuery,
    QuarantineRequest,
    QuarantineSource,
)
from indexing.models.repositories import RepositoryChange
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.quarantining import FAILED, LATER, PASSED, listed, load, set_up

AUTO, MANUAL = QuarantineSource.AUTO, QuarantineSource.MANUAL

_numbers = itertools.count()


async def sources(store: Store) -> list[QuarantineSource]:
    return [quarantine.source for quarantine in await listed(store)]


async def remove_all(store: Store) -> None:
    for quarantine in await listed(store, LATER):
        assert await store.remove_quarantine(WIDGETS, quarantine.key.id, LATER)


async def test_a_test_that_turns_flaky_is_quarantined_on_every_branch(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "P", commit="a")
    assert await listed(store) == []
    await load(store, "F", at=1, commit="a")
    (made,) = await listed(store)
    assert (made.test_name, made.branch, made.source) == ("t", None, AUTO)
    assert (made.owner, made.expires_at, made.key.created_at) == (None, None, LATER)
    assert made.reason == (
        "flaky on the default branch, failed or retried since 2026-09-01T13:00:00Z;"
        " in 30 days 50.0% of its results failed and 100.0% of its verdicts were flaky."
        " Flaky: on 1 of 1 commit in the last 30 days it both failed and passed."
    )
    assert await store.get_quarantine(WIDGETS, made.key.id, LATER) == made


@pytest.mark.parametrize(("ignored", "expected"), [(False, [AUTO]), (True, [])])
async def test_a_broken_test_is_quarantined_unless_those_are_ignored(
    store: Store, ignored: bool, expected: list[QuarantineSource]
) -> None:
    await set_up(store, auto_quarantine=True, ignore_broken_on_default_branch=ignored)
    await load(store, "PFFF")
    assert await sources(store) == expected
    await set_up(store, LATER, ignore_broken_on_default_branch=False)
    assert await sources(store) == [AUTO]


async def test_it_waits_until_a_test_has_been_broken_for_so_many_days(store: Store) -> None:
    await set_up(store, auto_quarantine=True, quarantine_after=2)
    # Broken from the evening of the first day on; a day without a result changes nothing.
    await load(store, "PFFF", now=after(days=8))
    await load(store, "F", at=24, now=after(days=8))
    assert await listed(store) == []
    await load(store, "F", at=49, now=after(days=8))
    (made,) = await listed(store)
    assert made.reason.endswith("Broken: its newest 3 verdicts failed.")


async def test_a_day_that_ended_well_begins_the_wait_again(store: Store) -> None:
    await set_up(store, auto_quarantine=True, quarantine_after=2)
    # Healthy at the end of the second day, broken at the ends of those around it.
    for at, letters in ((0, "FFF"), (24, "FFP"), (48, "FFF"), (72, "FFF")):
        await load(store, letters, at=at, now=after(days=8))
    assert await listed(store) == []
    # A result that comes late: the second day was no better than the others.
    await load(store, "F", at=30, commit="c26", now=after(days=8))
    assert await sources(store) == [AUTO]


async def test_late_results_that_shorten_the_wait_withdraw_the_quarantine(store: Store) -> None:
    await set_up(store, auto_quarantine=True, quarantine_after=1)
    await load(store, "FFF", now=after(days=8))
    await load(store, "FFF", at=24, now=after(days=8))
    assert await sources(store) == [AUTO]
    await load(store, "P", at=5, now=after(days=8))
    assert await listed(store) == []
    await set_up(store, after(days=8), quarantine_after=0)
    assert await sources(store) == [AUTO]


async def test_turning_it_on_quarantines_what_is_flaky_already(store: Store) -> None:
    await set_up(store)
    await load(store, "PF", commit="a")
    assert await listed(store) == []
    await set_up(store, after(days=2), auto_quarantine=True)
    (made,) = await listed(store)
    assert made.key.created_at == after(days=2)
    await set_up(store, after(days=3), auto_quarantine=False)
    assert await listed(store) == [made]


async def test_without_flaky_detection_nothing_more_is_quarantined_as_flaky(store: Store) -> None:
    await set_up(store, auto_quarantine=True, flaky_detection=False)
    await load(store, "FP", commit="a")
    assert await listed(store) == []
    await set_up(store, LATER, flaky_detection=True)
    (made,) = await listed(store)
    await set_up(store, LATER, flaky_detection=False)
    assert await listed(store) == [made]


async def test_other_branches_and_broken_machines_are_no_reason(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "PF", commit="a", branch="feature")
    run = make_run("down", commit="b")
    everything = make_executions(run, [(name, FAILED) for name in ("t", *"abcdefghijklmnopqrsuv")])
    await store.write_results(WIDGETS, {run: everything})
    await store.refresh_tests(LATER)
    assert await listed(store) == []


async def test_what_a_person_quarantined_is_left_as_it_is(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    everywhere, _ = await store.add_quarantine(WIDGETS, QuarantineRequest("t", "by hand"), NOON)
    await load(store, "FP", commit="a")
    assert await listed(store) == [everywhere]
    rule = QuarantineRequest("t", "rule", source=AUTO)
    again, _ = await store.add_quarantine(WIDGETS, rule, LATER)
    assert again == everywhere


async def test_one_of_a_single_branch_stands_beside_it(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await store.add_quarantine(WIDGETS, QuarantineRequest("t", "by hand", branch="main"), NOON)
    await load(store, "FP", commit="a")
    assert await sources(store) == [MANUAL, AUTO]


async def test_a_person_can_take_over_an_automatic_one(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "F", at=5)
    (made,) = await listed(store)
    taken, _ = await store.add_quarantine(
        WIDGETS, QuarantineRequest("t", "I see to it", owner="mona"), after(days=2)
    )
    assert (taken.key, taken.source, taken.reason) == (made.key, MANUAL, "I see to it")
    await load(store, "FP", at=1)
    await load(store, "P", at=6)
    assert await listed(store) == [taken]


@pytest.mark.parametrize("by_hand", [False, True])
async def test_one_that_was_removed_comes_back_on_newer_evidence_only(
    store: Store, by_hand: bool
) -> None:
    await set_up(store, auto_quarantine=True)
    if by_hand:
        await store.add_quarantine(WIDGETS, QuarantineRequest("t", "by hand"), NOON)
    await load(store, "FP", at=10, commit="a")
    await load(store, "P", at=21)
    (before,) = await listed(store)
    await remove_all(store)

    # An existing failure, later passes, and an older failure that arrives later.
    await load(store, "FP", at=10, commit="a")
    await load(store, "PPS", at=12)
    await load(store, "FPF", at=1)
    await store.rebuild(LATER)
    await set_up(store, LATER, auto_quarantine=False)
    await set_up(store, LATER, auto_quarantine=True)
    assert await listed(store) == []

    # Newer than each stored failure, though not than each pass.
    await load(store, "F", at=20)
    (again,) = await listed(store)
    assert (again.source, again.test_name) == (AUTO, "t")
    assert again.key.id != before.key.id


async def test_a_retry_is_newer_evidence_too(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "FP", commit="a")
    await remove_all(store)
    run = make_run("retried", commit="b")
    retried = make_executions(run, [("t", PASSED)], after(hours=2), needed_retries=True)
    await store.write_results(WIDGETS, {run: retried})
    await store.refresh_tests(LATER)
    assert await sources(store) == [AUTO]


async def test_one_that_expired_comes_back_on_what_ran_after_its_end(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "FP", commit="a", now=after(hours=2))
    await store.add_quarantine(
        WIDGETS, QuarantineRequest("t", "a day off", expires_at=after(hours=4)), after(hours=2)
    )
    await load(store, "F", at=3, now=after(hours=5))
    assert await listed(store, after(hours=5)) == []
    await load(store, "F", at=5, now=after(hours=6))
    (again,) = await listed(store, after(hours=6))
    assert (again.source, again.key.created_at) == (AUTO, after(hours=6))


async def test_passing_later_does_not_end_it_and_ten_verdicts_recover_it(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "PFFF", now=after(hours=4))
    (made,) = await listed(store)
    await load(store, "P" * 5, at=5, now=after(hours=10))
    await load(store, "P" * 4 + "SS", at=10, now=after(hours=16), branch="feature")
    assert await listed(store) == [made]
    run = make_run("down", commit="d")
    names = ("t", *"abcdefghijklmnopqrsuv")
    whole = make_executions(run, [(n, FAILED) for n in names], after(hours=17))
    await store.write_results(WIDGETS, {run: whole})
    await load(store, "P", at=18, now=after(hours=19))
    (recovered,) = [q for q in await listed(store) if q.test_name == "t"]
    assert recovered.key == made.key
    assert recovered.is_recovered
    await load(store, "F", at=20, now=after(hours=21), branch="feature")
    assert [q.is_recovered for q in await listed(store) if q.test_name == "t"] == [False]


async def test_recovery_is_judged_on_the_branches_of_the_pattern(store: Store) -> None:
    await set_up(store)
    await store.add_quarantine(WIDGETS, QuarantineRequest("t", "flaps", branch="release/*"), NOON)
    await load(store, "F", branch="main")
    await load(store, "F", at=-1, branch="release/1")
    for number in range(9):
        await load(store, "P", at=1 + number, branch=f"release/{number}/x")
    # The same commit again, in another job: the verdict changes, but only where the pattern
    # matches.
    await load(store, "P", at=9, branch="releases", job="slow")
    assert [q.is_recovered for q in await listed(store)] == [False]
    await load(store, "P", at=9, branch="release/2", job="slow")
    assert [q.is_recovered for q in await listed(store)] == [True]


async def test_older_results_that_arrive_later_take_back_what_was_no_reason(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "F", at=5)
    (hasty,) = await listed(store)
    await load(store, "P", at=4)
    assert await listed(store) == []
    assert await store.get_quarantine(WIDGETS, hasty.key.id, LATER) is None
    await load(store, "F", at=5.5, commit="c4")
    assert await sources(store) == [AUTO]


async def test_a_run_that_becomes_an_infrastructure_failure_withdraws_the_quarantine(
    store: Store,
) -> None:
    await set_up(store, auto_quarantine=True)
    run = make_run("down", commit="b")
    for names in ("abc", "tdefghijklmnopqrsuv"):
        part = make_executions(run, [(name, FAILED) for name in names], NOON)
        await store.write_results(WIDGETS, {run: part})
        await store.refresh_tests(LATER)
        assert [q.test_name for q in await listed(store)] == (["a", "b", "c"] * (names == "abc"))


@pytest.mark.parametrize(
    "change", [{"flaky_detection": False}, {"flaky_detection": False, "default_branch": "x"}, {}]
)
async def test_a_decision_is_final_once_a_setting_changes_or_retention_reaches_its_results(
    store: Store, change: dict[str, Any]
) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "P", at=-80, job="gone")
    await load(store, "F", at=5)
    before = await listed(store)
    assert [q.source for q in before] == [AUTO]
    if change:
        await set_up(store, LATER, **change)
    else:
        await store.prune(after(hours=-79.5), LATER)
    await load(store, "P", at=4)
    assert await listed(store) == before


async def test_another_default_branch_withdraws_the_quarantine(store: Store) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "FP", commit="same")
    await load(store, "PPP", at=3, branch="next")
    assert await sources(store) == [AUTO]
    await set_up(store, LATER, default_branch="next")
    assert await listed(store) == []
    await set_up(store, LATER, default_branch="main")
    assert await sources(store) == [AUTO]


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["main", "main", "feature"]),
        st.sampled_from("abcde"),
        st.sampled_from(["unit", "slow"]),
        st.integers(-45 * 24, 0),
        st.lists(
            st.tuples(st.sampled_from("tu"), st.sampled_from(Conclusion)), min_size=1, max_size=3
        ),
    ),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    runs=RUNS,
    order=st.randoms(use_true_random=False),
    ignore=st.booleans(),
    wait=st.sampled_from([0, 0, 1, 20]),
)
async def test_any_order_and_any_split_end_in_the_same_quarantines(
    store: Store,
    runs: list[tuple[str, str, str, int, list[tuple[str, Conclusion]]]],
    order: random.Random,
    ignore: bool,
    wait: int,
) -> None:
    # Hypothesis runs many examples in one store: each needs its own repositories.
    number = next(_numbers)
    found = []
    for name, shuffled in (("together", False), ("apart", True)):
        repository = RepositoryName("auto", f"{name}{number}")
        pieces = [
            (run, [execution])
            for index, run in enumerate(_run_of(number, each) for number, each in enumerate(runs))
            for execution in make_executions(
                run, runs[index][4], after(hours=runs[index][3]), repository=repository
            )
        ]
        change = RepositoryChange(
            auto_quarantine=True, ignore_broken_on_default_branch=ignore, quarantine_after=wait
        )
        await store.set_repository(repository, change, NOON)
        if shuffled:
            order.shuffle(pieces)
        for step, (run, executions) in enumerate(pieces):
            await store.write_results(repository, {run: executions})
            if shuffled and order.random() < 0.7:
                await store.refresh_tests(after(minutes=step))
        await store.refresh_tests(after(hours=1))
        query = QuarantineQuery(repository, LATER)
        page = await store.list_quarantines(query, Anchor(), None)
        found.append(sorted((q.test_name, q.reason, q.branch, q.source) for q in page.rows))
    assert found[0] == found[1]


def _run_of(number: int, about: tuple[str, str, str, int, Any]) -> Run:
    branch, commit, job, _, _ = about
    return make_run(str(number), branch=branch, commit=commit, job=job)
