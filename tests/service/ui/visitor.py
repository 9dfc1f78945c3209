"""A browser window that records errors, dialogs and requests to other sites."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

from tests.service.front_door import FrontDoor
from tests.service.ui.client import find_proof

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
# Every rule runs on every element. The options only omit what nobody reads: all elements that pass,
# and selectors. To describe them takes part of its time.
RUN_AXE = """
axe.run({ resultTypes: ["violations"], selectors: false }).then(
  (found) => found.violations.map((each) => [each.id, each.nodes[0].html])
)
"""

# What no text of a stranger can have brought about: scripts, handlers, or elements of theirs.
INJECTED = """
() => [
  ...document.querySelectorAll(
    "script:not([src]), img, iframe, object, embed, style, base, [style], [autofocus], a[href^=j i]"
  ),
  ...[...document.querySelectorAll("*")].filter(
    (each) => [...each.attributes].some((found) => found.name.startsWith("on"))
  ),
].map((each) => each.outerHTML)
"""

# What a page needs from the network the first time, compressed.
MAX_PAGE_BYTES = 250_000


@dataclass
class Visitor:
    """A browser window; `wrong` lists everything that must not happen."""

    page: Page
    site: FrontDoor
    wrong: list[str] = field(default_factory=list)
    # Statuses of documents that a test expects to be refused.
    refusals: int = 0

    async def go(self, path: str) -> None:
        """Open a page by its path."""
        await self.page.goto(self.site.base + path)

    async def sign_in(self) -> None:
        """Get the cookies of a session, by the requests of the form.

        Loading the form and the first page would take most of the time of many tests.
        """
        place, requests = f"{self.site.base}/ui/sign-in", self.page.context.request
        shown = await requests.get(place)
        answer = await requests.post(
            place,
            form={"csrf": find_proof(await shown.body()), "key": self.site.key},
            headers={"Origin": self.site.base},
            max_redirects=0,
        )
        assert answer.status == HTTPStatus.SEE_OTHER

    async def fill_in_key(self) -> None:
        """Sign in as people do; the first page is open then."""
        await self.go("/ui/")
        await self.page.get_by_label("Key", exact=True).fill(self.site.key)
        await self.page.get_by_role("button", name="Sign in").click()
        await self.page.get_by_role("heading", name="Repositories").wait_for()
        # Parts of later pages would stay as they are below the pointer.
        await self.page.mouse.move(0, 0)

    async def weigh(self) -> list[float]:
        """Turn the browser's cache off; return a list that gets the bytes of each response."""
        weights: list[float] = []
        session = await self.page.context.new_cdp_session(self.page)
        await session.send("Network.enable")
        await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        session.on(
            "Network.loadingFinished", lambda event: weights.append(event["encodedDataLength"])
        )
        return weights

    async def find_violations(self) -> list[Any]:
        """Return the violations that axe finds in the page as it is now."""
        # As text of the tester: the policy of the page lets no script in.
        await self.page.evaluate(AXE.read_text(encoding="utf-8") + "; 0")
        found: list[Any] = await self.page.evaluate(RUN_AXE)
        return found

    async def find_injected(self) -> list[str]:
        """Return the elements and handlers that no template contains."""
        found: list[str] = await self.page.evaluate(INJECTED)
        return found


@asynccontextmanager
async def visit(browser: Browser, site: FrontDoor, **options: Any) -> AsyncIterator[Visitor]:
    """Open a window with these options of Playwright's `new_context`."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = await context.new_page()
    visitor = Visitor(page, site)
    wrong = visitor.wrong
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    page.on(
        "console",
        lambda said: wrong.append(f"console: {said.text}") if said.type == "error" else None,
    )
    page.on(
        "request",
        lambda sent: None if sent.url.startswith(site.base) else wrong.append(f"sent: {sent.url}"),
    )
    try:
        yield visitor
    finally:
        await context.close()
    refused = [each for each in wrong if "Failed to load resource" in each]
    assert len(refused) == visitor.refusals, wrong
    assert [each for each in wrong if each not in refused] == []
