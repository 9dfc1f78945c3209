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
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection, build_request
from hardening.seeding import seed_new_store
from indexing.models.keys import Scope
from tests.source_host import open_host

TOKENS = ("ghs_theSecretTokenOfSomebody0123456789", "aTokenOfNoKnownForm.0123456789-abcdefgh")
_CHUNK = 2**20


async def run(harness: Harness, *, stores: Sequence[str] = STORES) -> list[Finding]:
    await _use(harness, stores)
    await asyncio.to_thread(harness.dump_node)
    credentials = set(harness.credentials_file.read_text(encoding="utf-8").split())
    # The files of the other runs lie beside this one's.
    found, files, size = await asyncio.to_thread(search, harness.folder.parent, credentials)
    return [
        Finding(
            "credentials in logs, Redis, databases, Elasticsearch and metrics",
            f"{len(credentials)} credentials in 5 encodings, {files:,} files, "
            f"{size / 2**20:,.0f} MiB: {len(found)} found",
            "0",
            not found,
            "; ".join(found[:5]),
        )
    ]


async def _use(harness: Harness, stores: Sequence[str]) -> None:
    """Use each kind in every place of a request, with every kind of store and full logging."""
    for store in stores:
        place = await harness.new_store(store)
        (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"], scope=Scope.ADMIN)
        harness.record_credentials(*TOKENS)
        async with AsyncExitStack() as stack:
            redis = stack.enter_context(harness.redis())
            host = await stack.enter_async_context(open_host())
            host.add("acme/widgets", TOKENS[0])
            running = await stack.enter_async_context(
                harness.serve(
                    place,
                    redis_url=redis.url,
                    host_api_url=host.base,
                    ingest="true",
                    rate_limit="1000000/minute",
                    metrics="true",
                )
            )
            connection = RawConnection(running.port)
            for credential in (key, *TOKENS):
                for target in seeded.targets().values():
                    for _ in range(3):
                        await connection.request(target, credential)
                    await connection.request(
                        target, credential, b"X-Request-Id: " + credential.encode()
                    )
                for headers in variants(Texts(credential, credential, credential, credential)):
                    await connection.request(seeded.targets()["events"], None, *headers)
            # A key pasted into a URL by mistake must not appear in its log line.
            for target in (f"/v1/{key}", f"/v1/repos/{key}/x/logs?token={key}"):
                await connection.request(target, key)
            await connection.send(build_request("/v1/x", key, b"Bad header"))
            redis.kill()
            await connection.request(seeded.targets()["events"], key)
            await asyncio.to_thread(redis.start)
            for credential in (key, *TOKENS):
                for target in seeded.targets().values():
                    await connection.request(target, credential)
            response = await connection.request("/metrics")
            if b"mergewatch_requests_total" not in response.body:
                raise RuntimeError("there are no metrics to look through")
            (harness.new_folder("metrics") / "content").write_bytes(response.body)
            connection.abort()
            await harness.command(place, "keys", "list")


def search(folder: Path, credentials: Iterable[str]) -> tuple[list[str], int, int]:
    """Find any credential in any encoding; return the places, and the files and bytes searched.

    The output of the key commands is not searched: their purpose is to print the key.
    """
    wanted = {encoded for text in credentials for encoded in encodings(text.encode())}
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


def encodings(text: bytes) -> Iterator[bytes]:
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
