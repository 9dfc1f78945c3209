"""Links of pages, followed by plain requests: each leads to what it names, also later."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from urllib.parse import urljoin

import pytest

from indexing.models.executions import Conclusion
from indexing.models.quarantines import QuarantineRequest
from tests.builders import NOON, WIDGETS, after, make_event, make_executions, make_run
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.logged import LOG, load_log
from tests.service.ui.shown import BROKEN, load_shown, page_of
from tests.service.ui.signed_in import read, sign_in


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    return await sign_in(door)


def links_in(page: str, pattern: str) -> list[str]:
    """Return the targets of the links that match, in their order."""
    return [unescape(each) for each in re.findall(rf'href="({pattern})"', page)]


@pytest.mark.parametrize("view", ["", "?received_to=2026-09-02", "?pull_request=444&last=30d"])
async def test_the_link_of_an_event_leads_to_it_after_newer_ones_arrived(
    client: Client, view: str
) -> None:
    await load_log(client.door.store)
    page = await read(client, LOG + view)
    newest, *_, oldest = links_in(page, r"[^\"]*#e\d+")
    newer = [
        make_event(2_000 + number, NOON + timedelta(seconds=number), pull_request=444)
        for number in range(60)
    ]
    client.door.clock.now = after(minutes=5)
    await client.door.store.write_events(newer)
    for link in (newest, oldest):
        opened = await read(client, urljoin(LOG, link))
        name = link.partition("#")[2]
        assert f'id="{name}">' in opened
        assert "<details open>" in opened.partition(f'id="{name}">')[2].partition("</td>")[0]


async def test_the_page_of_a_refused_quarantine_leads_on(client: Client) -> None:
    await load_shown(client.door.store, days=30)
    place = page_of(BROKEN)
    sent = {"csrf": await client.proof(place), "reason": "x" * 1_001}
    refused = await client.post(f"{place}/quarantine", sent)
    assert refused.status == 422
    links = links_in(refused.body.decode(), r"[^\"]*\?(?!v=)[^\"]*")
    assert any("cursor=" in each for each in links)
    assert any("commit=" in each for each in links)
    for link in {each.partition("#")[0] for each in links}:
        await read(client, urljoin(f"{place}/quarantine", link))


def count_executions(page: str) -> int:
    return page.partition("<caption>Executions, newest first")[2].count('<tr role="row"><td')


async def test_verdicts_of_a_test_that_has_not_run_lately_lead_to_their_executions(
    client: Client,
) -> None:
    await load_shown(client.door.store)
    client.door.clock.now = after(days=40)
    await client.sign_in()
    place = page_of(BROKEN)
    page = await read(client, place)
    verdicts = links_in(page, r"[^\"]*commit=[^\"]*")
    assert len(verdicts) == 28
    for link in verdicts:
        assert count_executions(await read(client, link.partition("#")[0])) == 1
    assert "None of the last 30 days matches" in page
    [newest] = links_in(page, r"[^\"]*tests/[^\"?]*\?start=[^\"]*")
    assert count_executions(await read(client, newest.partition("#")[0])) == 20


async def test_verdicts_of_these_days_have_short_links(client: Client) -> None:
    await load_shown(client.door.store)
    page = await read(client, page_of(BROKEN))
    verdicts = links_in(page, r"[^\"]*commit=[^\"]*")
    assert not any("start=" in each for each in verdicts)
    assert count_executions(await read(client, verdicts[0].partition("#")[0])) == 1


async def test_only_verdicts_whose_names_fit_into_an_address_are_links(client: Client) -> None:
    store = client.door.store
    await store.ensure_repository(WIDGETS)
    short, long = "\u6f22" * 100, "\u5b57" * 900
    for job, commit in ((short, "a"), (long, "b"), ("unit", "\u5b57" * 60)):
        run = make_run(job, job=job, commit=commit)
        executions = make_executions(run, [(BROKEN, Conclusion.FAILED)], after(hours=-1))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    page = await read(client, page_of(BROKEN))
    assert long[:100] in page
    verdicts = links_in(page, r"[^\"]*commit=[^\"]*")
    assert [count_executions(await read(client, each.partition("#")[0])) for each in verdicts] == [
        1
    ]
    durations = links_in(page, r"[^\"]*job_name=[^\"]*#durations")
    for link in durations:
        await read(client, link.partition("#")[0])


async def load_many_failures(client: Client) -> None:
    """Load a test that failed once a minute, each time in another way."""
    store = client.door.store
    await store.ensure_repository(WIDGETS)
    for number in range(45):
        run = make_run(f"{number}", commit=f"{number:040}")
        executions = make_executions(
            run,
            [(BROKEN, Conclusion.FAILED)],
            after(minutes=-number - 1),
            # Numbers do not count as another message.
            failure_message=f"no {chr(ord('a') + number // 20)}{chr(ord('a') + number % 20)}",
        )
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)


async def test_failures_and_executions_keep_the_page_of_each_other(client: Client) -> None:
    await load_many_failures(client)
    place = page_of(BROKEN)

    def follow(page: str, anchor: str, relation: str = "next") -> str:
        [link] = links_in(page, rf'[^"]*#{anchor}(?=" rel="{relation}")')
        return link.partition("#")[0]

    older = await read(client, follow(await read(client, place), "failures"))
    assert "no ba" in older
    assert "no aa" not in older
    both = await read(client, follow(older, "executions"))
    assert "no ba" in both
    assert "0000000020" in both.partition('id="executions"')[2]
    newer = await read(client, follow(both, "failures", "prev"))
    assert "no aa" in newer
    assert "0000000020" in newer.partition('id="executions"')[2]
    [failed] = links_in(both, r"[^\"]*conclusion=failed[^\"]*")
    assert "no ba" in await read(client, failed.partition("#")[0])


async def test_all_jobs_of_the_durations_keeps_the_other_filters(client: Client) -> None:
    await load_shown(client.door.store)
    page = await read(client, f"{page_of(BROKEN)}?job_name=linux&branch=main&conclusion=failed")
    [link] = links_in(page, r'[^"]*#durations(?=">All jobs)')
    assert link == f"{page_of(BROKEN)}?branch=main&conclusion=failed#durations"


async def test_quarantines_and_their_changes_keep_the_page_of_each_other(client: Client) -> None:
    place = "/ui/acme/widgets/quarantines"
    for number in range(101):
        request = QuarantineRequest(f"test {number:03}", "r", branch="main")
        await client.door.store.add_quarantine(WIDGETS, request, after(seconds=-number))

    def follow(page: str, name: str) -> str:
        panel = page.partition('id="changes"')[2 if name == "changes" else 0]
        return urljoin(place, links_in(panel, r'[^"]*(?=" rel="next")')[0].partition("#")[0])

    rows = await read(client, follow(await read(client, f"{place}?branch=main"), "rows"))
    both = await read(client, follow(rows, "changes"))
    assert "1 on this page" in both
    first = await read(client, f"{place}?branch=main")
    again = await read(client, follow(await read(client, follow(first, "changes")), "rows"))
    assert "1 on this page" in again
    for page in (both, again):
        changes = page.partition('id="changes"')[2]
        assert "test 020" in changes
        assert "test 019" not in changes


async def load_broken(client: Client, count: int) -> None:
    """Load tests that became broken these days, and more sound ones."""
    store = client.door.store
    await store.ensure_repository(WIDGETS)
    for number in range(8):
        ended = Conclusion.FAILED if number >= 4 else Conclusion.PASSED
        # A job in which most tests fail has failed as a whole, and its results do not count.
        results = [(f"broken {each}", ended) for each in range(count)]
        results += [(f"sound {each}", Conclusion.PASSED) for each in range(2 * count)]
        run = make_run(f"{number}", commit=f"{number:040}")
        executions = make_executions(run, results, after(days=number - 8))
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)


@pytest.mark.parametrize(
    ("count", "said"), [(6, None), (9, "3 more<"), (101, "94 more of the newest 100<")]
)
async def test_the_overview_says_how_many_more_tests_became_broken(
    client: Client, count: int, said: str | None
) -> None:
    await load_broken(client, count)
    page = await read(client, "/ui/acme/widgets")
    panel = page.partition('id="new"')[2].partition("</section>")[0]
    assert panel.count("<li ") == min(count, 100)
    assert ("<summary" in panel) == (said is not None)
    if said is not None:
        assert said in panel
        [link] = links_in(panel, r'[^"]*health_status[^"]*')
        listed = await read(client, link)
        assert f"{count} rows" in listed


async def test_all_that_can_be_opened_shows_it_by_a_mark(client: Client) -> None:
    store = client.door.store
    await load_broken(client, 9)
    events = [make_event(number, after(hours=-1), trigger=f"rule {number}") for number in range(9)]
    await store.write_events(events)
    overview = await read(client, "/ui/acme/widgets")
    [test, *_] = links_in(overview, r"/ui/acme/widgets/tests/[^\"]*")
    for page in (overview, await read(client, test), await read(client, LOG)):
        opened = re.findall(r"<summary.*?</summary>", page, re.DOTALL)
        assert len(opened) > 1
        assert [each for each in opened if 'class="i caret"' not in each] == []


@pytest.mark.parametrize("page", ["", "/worst", "/tests", "/tests/{}", "/quarantines", "/events"])
async def test_a_repository_in_another_case_is_shown_in_its_stored_spelling(
    client: Client, page: str
) -> None:
    await load_shown(client.door.store)
    test_id = page_of(BROKEN).rpartition("/")[2]
    shown = await read(client, f"/ui/ACME/Widgets{page.format(test_id)}")
    assert "acme/widgets" in shown
    assert "ACME" not in shown
    assert "Widgets" not in shown


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("/ui/ACME", "/ui/"),
        ("/ui/sign-out", "/ui/"),
        ("/ui/docs/?operation=x", "/ui/docs?operation=x"),
        ("/ui/acme/widgets/tests//", "/ui/acme/widgets/tests"),
    ],
)
async def test_a_shortened_address_or_a_slash_too_many_leads_to_the_nearest_page(
    client: Client, path: str, nearest: str
) -> None:
    assert (await client.get(path)).headers["Location"] == nearest
    assert (await client.get("/ui/other")).status == 404
