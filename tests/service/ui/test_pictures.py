"""The pictures of the README: `MERGEWATCH_TEST_PICTURES=docs` replaces them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.service.front_door import FrontDoor
from tests.service.ui.shown import FLAKY, SECRET_OF_TRACE, load_shown, page_of
from tests.service.ui.visitor import visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

README = Path(__file__).parents[3] / "README.md"
SIZE = {"width": 1280, "height": 720}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_readme_shows_why_a_test_is_flaky(
    browser: Browser, site: FrontDoor, tmp_path: Path, scheme: str
) -> None:
    await load_shown(site.store, days=24)
    async with visit(browser, site, color_scheme=scheme, viewport=SIZE) as visitor:
        await visitor.sign_in()
        await visitor.go(page_of(FLAKY))
        await visitor.page.get_by_text("expected 5, got 11").click()
        await expect(visitor.page.get_by_text(SECRET_OF_TRACE)).to_be_visible()
        # The pointer shows nothing of its own.
        await visitor.page.mouse.move(0, 0)
        name = f"dashboard-{scheme}.png"
        path = Path(os.environ.get("MERGEWATCH_TEST_PICTURES", tmp_path)) / name
        picture = await visitor.page.screenshot(path=path, animations="disabled")
    assert len(picture) > 20_000
    assert f"docs/{name}" in README.read_text(encoding="utf-8")
    assert (README.parent / "docs" / name).is_file()
