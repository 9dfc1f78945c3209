"""Names of tests in lists: how they are cut, and what they are called."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from indexing.models.quarantines import QuarantineRequest
from tests.builders import WIDGETS, after, load_names
from tests.service.front_door import FrontDoor
from tests.service.ui.visitor import Visitor

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_long_names_that_differ_at_the_end_are_called_differently(
    site: FrontDoor, visitor: Visitor
) -> None:
    names = [f"pkg/test_lid.py::test_{'x' * 500}_{end}" for end in ("one", "two")]
    await load_names(site.store, names)
    for name in names:
        await site.store.add_quarantine(WIDGETS, QuarantineRequest(name, "flaps"), after(days=-1))
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/tests")
    for end in ("one", "two"):
        await expect(page.get_by_role("link", name=f"_{end}")).to_have_count(1)
    assert await visitor.find_violations() == []
    await visitor.go("/ui/acme/widgets/quarantines")
    for end in ("one", "two"):
        await expect(page.get_by_role("checkbox", name=f"_{end}")).to_have_count(1)
    assert await visitor.find_violations() == []
