"""Pages say if no report has come for days, or none of the default branch."""

from __future__ import annotations

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.executions import Conclusion
from tests.builders import GADGETS, WIDGETS, after, make_executions, make_run
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.shown import BROKEN, load_shown, page_of
from tests.service.ui.signed_in import read, sign_in

OVERVIEW = "/ui/acme/widgets"
SILENT = "Health stays as it was last seen."


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    # The newest report is an hour old.
    await load_shown(door.store)
    return await sign_in(door)


async def show_after(client: Client, days: float) -> str:
    client.door.clock.now = after(days=days)
    await client.sign_in()
    return await read(client, OVERVIEW)


@pytest.mark.parametrize(
    ("days", "shown"), [(2.9, None), (3, "3 days"), (23, "23 days"), (100, "100 days")]
)
async def test_it_says_for_how_many_days_no_report_has_come(
    client: Client, days: float, shown: str | None
) -> None:
    page = await show_after(client, days)
    assert (SILENT in page) == (shown is not None)
    if shown is not None:
        assert f"No report for <b>{shown}</b>. {SILENT}" in page


async def test_a_report_of_another_branch_is_one(client: Client) -> None:
    run = make_run("of a branch", branch="topic")
    executions = make_executions(run, [(BROKEN, Conclusion.PASSED)], after(days=22))
    await client.door.store.write_results(WIDGETS, {run: executions})
    assert SILENT not in await show_after(client, 23)


async def test_it_says_so_too_once_the_results_are_gone(client: Client) -> None:
    await client.door.store.prune(after(days=50), after(days=50))
    assert f"No report for <b>longer than results are kept</b>. {SILENT}" in await show_after(
        client, 100
    )


async def test_only_the_runs_of_silent_repositories_are_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def list_runs(*about: object) -> None:
        asked.append(about)
        raise StoreUnavailableError("too slow")

    monkeypatch.setattr(client.door.reader, "list_runs", list_runs)
    await read(client, OVERVIEW)
    assert asked == []
    assert SILENT not in await show_after(client, 23)
    assert len(asked) == 1


async def test_reports_of_other_branches_are_told_from_no_report(door: FrontDoor) -> None:
    await door.store.ensure_repository(GADGETS)
    run = make_run("of a branch", branch="$(topic)")
    executions = make_executions(run, [(BROKEN, Conclusion.FAILED)], after(days=-2))
    await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(after())
    client = await sign_in(door)
    overview = await read(client, OVERVIEW)
    assert "No report of the default branch yet" in overview
    assert '<bdi class="mono">$(topic)</bdi>' in overview
    assert "2\u00a0d ago" in overview
    # No shell runs what a branch is called.
    assert "mergewatch repository set acme/widgets --default-branch BRANCH" in overview
    assert "No report yet" in await read(client, "/ui/acme/gadgets")
    repositories = await read(client, "/ui/")
    assert "no report of <bdi>main</bdi>" in repositories
    assert "no report yet" in repositories
    assert "No report yet" not in await read(client, f"{OVERVIEW}/tests")
    assert "There are no results on the default branch." in await read(client, page_of(BROKEN))
