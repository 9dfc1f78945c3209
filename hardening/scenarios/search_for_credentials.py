"""Runs last: searches everything that the scenarios left for every credential used."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

from hardening.bad_credentials import Texts, variants
from hardening.findings import Finding
from hardening.ground import STORES, Ground
from hardening.stock import prepared
from hardening.wire import Wire, request
from indexing.models.keys import Scope
from tests.source_host import open_host

TOKENS = ("ghs_theSecretTokenOfSomebody0123456789", "aTokenOfNoKnownForm.0123456789-abcdefgh")
_CHUNK = 2**20


async def run(ground: Ground, *, stores: Sequence[str] = STORES) -> list[Finding]:
    await _use(ground, stores)
    await asyncio.to_thread(ground.write_down_node)
    credentials = set(ground.ledger.read_text(encoding="utf-8").split())
    # The files of the other runs lie beside this one's.
    found, files, size = await asyncio.to_thread(search, ground.folder.parent, credentials)
    return [
        Finding(
            "credentials in logs, Redis, databases, Elasticsearch and metrics",
            f"{len(credentials)} credentials in 5 writings, {files:,} files, "
            f"{size / 2**20:,.0f} MiB: {len(found)} found",
            "0",
            not found,
            "; ".join(found[:5]),
        )
    ]


async def _use(ground: Ground, stores: Sequence[str]) -> None:
    """Use each kind in every place of a request, with every kind of store and full logging."""
    for store in stores:
        place = await ground.place(store)
        (stock,), key = await prepared(ground, place, ["acme/widgets"], scope=Scope.ADMIN)
        ground.note(*TOKENS)
        async with AsyncExitStack() as stack:
            redis = stack.enter_context(ground.redis())
            host = await stack.enter_async_context(open_host())
            host.add("acme/widgets", TOKENS[0])
            running = await stack.enter_async_context(
                ground.serve(
                    place,
                    redis_url=redis.url,
                    host_api_url=host.base,
                    ingest="true",
                    rate_limit="1000000/minute",
                    metrics="true",
                )
            )
            wire = Wire(running.port)
            for credential in (key, *TOKENS):
                for target in stock.targets().values():
                    for _ in range(3):
                        await wire.ask(target, credential)
                    await wire.ask(target, credential, b"X-Request-Id: " + credential.encode())
                for headers in variants(Texts(credential, credential, credential, credential)):
                    await wire.ask(stock.targets()["events"], None, *headers)
            # A key pasted into a URL by mistake must not appear in its log line.
            for target in (f"/v1/{key}", f"/v1/repos/{key}/x/logs?token={key}"):
                await wire.ask(target, key)
            await wire.send(request("/v1/x", key, b"Bad header"))
            redis.kill()
            await wire.ask(stock.targets()["events"], key)
            await asyncio.to_thread(redis.start)
            for credential in (key, *TOKENS):
                for target in stock.targets().values():
                    await wire.ask(target, credential)
            told = await wire.ask("/metrics")
            if b"mergewatch_requests_total" not in told.body:
                raise RuntimeError("there are no metrics to look through")
            (ground.new_folder("metrics") / "content").write_bytes(told.body)
            wire.abort()
            await ground.command(place, "keys", "list")


def search(folder: Path, credentials: Iterable[str]) -> tuple[list[str], int, int]:
    """Find any credential in any encoding; return the places, and the files and bytes searched.

    The output of the key commands is not searched: their purpose is to print the key.
    """
    wanted = {writing for text in credentials for writing in writings(text.encode())}
    if not wanted:
        raise ValueError("no credential was used")
    pattern = re.compile(b"|".join(re.escape(text) for text in sorted(wanted)))
    overlap = max(len(text) for text in wanted)
    found, files, size = [], 0, 0
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files += 1
            size += path.stat().st_size
            for chunk in _chunks(path, overlap):
                if match := pattern.search(chunk):
                    # Report only the place, so that the credential itself does not spread further.
                    found.append(f"{path.relative_to(folder)} near byte {match.start()}")
                    break
    return found, files, size


def writings(text: bytes) -> Iterator[bytes]:
    """Yield the text plain, percent-encoded, in base 64, in hexadecimal and reversed."""
    yield text
    yield quote(text).encode()
    # Cut the end, which depends on what follows.
    yield base64.b64encode(text)[: len(text)]
    yield text.hex().encode()
    yield text[::-1]


def _chunks(path: Path, overlap: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        before = b""
        while data := file.read(_CHUNK):
            yield before + data
            before = data[-overlap:]
