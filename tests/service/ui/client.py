"""A browser without a window."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.cookies import Morsel, SimpleCookie
from typing import Any
from urllib.parse import urlencode

from service.ui.forms import FORM_TYPE
from tests.service.front_door import Answer, FrontDoor


def is_taken(name: str, morsel: Morsel[str]) -> bool:
    """Whether a browser sets or deletes the cookie of that name for all pages, as the field asks.

    Browsers ignore a field about a `__Host-` cookie that is not `Secure`, even one that deletes it:
    https://datatracker.ietf.org/doc/html/draft-ietf-httpbis-rfc6265bis#section-4.1.3.2
    """
    is_for_all = morsel["path"] == "/" and not morsel["domain"]
    return is_for_all and (bool(morsel["secure"]) or not name.startswith("__Host-"))


def find_proof(page: bytes) -> str:
    """Return the CSRF token of a page."""
    found = re.search(rb'name="csrf" value="([^"]+)"', page)
    assert found is not None
    return found[1].decode()


class Client:
    """Keeps cookies and sends forms."""

    def __init__(self, door: FrontDoor) -> None:
        self.door = door
        self.cookies: dict[str, str] = {}

    async def get(self, path: str, **headers: str) -> Answer:
        return await self._ask(path, headers)

    async def post(self, path: str, fields: Mapping[str, Any], **headers: str) -> Answer:
        sent = {"Content-Type": FORM_TYPE, "Origin": self.door.base, **headers}
        body = urlencode(fields, doseq=True).encode()
        return await self._ask(path, {k: v for k, v in sent.items() if v}, "POST", body)

    async def proof(self, path: str = "/ui/sign-in") -> str:
        """Return the CSRF token of the page with that path."""
        return find_proof((await self.get(path)).body)

    async def sign_in(self, key: str | None = None, **fields: str) -> Answer:
        chosen = self.door.key if key is None else key
        return await self.post("/ui/sign-in", {"csrf": await self.proof(), "key": chosen, **fields})

    async def _ask(
        self, path: str, headers: Mapping[str, str], method: str = "GET", body: bytes | None = None
    ) -> Answer:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {**headers, **({"Cookie": cookie} if cookie else {})}
        async with self.door.client.request(
            method, self.door.base + path, headers=sent, data=body, allow_redirects=False
        ) as response:
            for line in response.headers.getall("Set-Cookie", ()):
                for name, morsel in SimpleCookie(line).items():
                    if not is_taken(name, morsel):
                        continue
                    if morsel.value:
                        self.cookies[name] = morsel.value
                    else:
                        self.cookies.pop(name, None)
            return Answer(response.status, response.headers, await response.read())
