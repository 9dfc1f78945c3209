"""Pages of refused requests say what a person can do next."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from service.config.settings import Settings
from service.ui.formats import show_age
from tests.builders import NOON, load_names
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.service.ui.signed_in import sign_in

TESTS = "/ui/acme/widgets/tests"
WITHOUT_FILTERS = '<a href="?">'


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
async def test_after_too_many_requests_a_page_says_when_to_come_back(
    stack: Settings, headers: dict[str, str]
) -> None:
    async for door in open_door(replace(stack, rate_limit="1/hour")):
        client = await sign_in(door)
        assert (await client.get(TESTS)).status == 200
        refused = await client.get(TESTS, **headers)
        assert refused.status == 429
        seconds = int(refused.headers["Retry-After"])
        when = show_age(NOON + timedelta(seconds=seconds), NOON)
        assert "min" in when or "h" in when
        page = refused.body.decode()
        assert f"Rate limit exceeded. Reload the page {when}.</p>" in page
        assert "Retry-After" not in page


async def test_a_wrong_filter_leads_to_the_page_without_it(door: FrontDoor) -> None:
    client = await sign_in(door)
    await load_names(door.store, ["t::hinge"])
    for query in ("quarantined=maybe", "cursor=abc", "sort=size&test_name=hinge"):
        refused = await client.get(f"{TESTS}?{query}")
        assert refused.status == 422
        assert WITHOUT_FILTERS in refused.body.decode()
    # No filter is wrong here, so the link would lead to the same error.
    for path in ("/ui/acme/bad%20name/tests", f"{TESTS}/no-uuid", "/ui/acme/missing/tests?x=1"):
        assert WITHOUT_FILTERS not in (await client.get(path)).body.decode()
