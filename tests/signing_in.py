"""Signs in to the dashboard with a key, as a browser does."""

from __future__ import annotations

import re

import aiohttp


async def sign_in(client: aiohttp.ClientSession, url: str, key: str) -> None:
    """Fill in the form of the service at `url`; the client keeps the cookies."""
    # Readable by a client that does not decompress, too.
    plain = {"Accept-Encoding": "identity"}
    async with client.get(f"{url}/ui/sign-in", headers=plain) as response:
        found = re.search('name="csrf" value="([^"]+)"', await response.text())
    if found is None:
        raise RuntimeError("no form to sign in")
    form = {"csrf": found[1], "key": key}
    async with client.post(
        f"{url}/ui/sign-in", data=form, headers={"Origin": url}, allow_redirects=False
    ) as response:
        response.raise_for_status()
