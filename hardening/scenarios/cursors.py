"""Every byte of cursors altered, and cursors shortened and extended: 422 each time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from string import ascii_letters, digits
from urllib.parse import quote

from hardening.findings import Finding
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection
from hardening.seeding import SeededRepository, seed_new_store

CURSORS = 20
_ALPHABET = ascii_letters + digits + "-_"


async def run(
    harness: Harness, *, cursors: int = CURSORS, stores: Sequence[str] = STORES
) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
        async with harness.serve(place) as running:
            connection = RawConnection(running.port)
            answers: Counter[int] = Counter()
            taken: list[str] = []
            good = await _collect(connection, key, seeded, cursors)
            for base, cursor in good:
                for altered in alterations(cursor):
                    response = await connection.request(f"{base}&cursor={quote(altered)}", key)
                    answers[response.status] += 1
                    if response.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                        taken.append(f"{response.status} to {altered} for {cursor}")
            connection.abort()
        found.append(
            Finding(
                f"altered cursors, {store}",
                f"{len(good)} cursors, {answers.total():,} alterations: "
                f"{answers[HTTPStatus.UNPROCESSABLE_ENTITY]:,} × 422, {len(taken)} others",
                f"{cursors} cursors, 0 others",
                len(good) >= cursors and not taken,
                "; ".join(taken[:3]),
            )
        )
    return found


def alterations(cursor: str) -> Iterator[str]:
    """Replace each byte by its neighbours in the alphabet and by one outside; remove it."""
    for at, byte in enumerate(cursor):
        place = _ALPHABET.index(byte)
        others = {_ALPHABET[(place + step) % len(_ALPHABET)] for step in (1, 2, 16, 32)}
        for other in (*sorted(others), "=", ""):
            yield cursor[:at] + other + cursor[at + 1 :]
    yield from (cursor + end for end in ("A", "=", "==", " ", cursor))


async def _collect(
    connection: RawConnection, key: str, seeded: SeededRepository, wanted: int
) -> list[tuple[str, str]]:
    """Walk lists until there are enough cursors; return each with its target without the cursor."""
    targets = seeded.targets()
    search = targets["search"].partition("?")[0]
    firsts = [
        targets["events"].replace("per_page=5", "per_page=9"),
        *(
            f"{search}?test_name=*&sort={sort}&direction={direction}&per_page=3"
            for sort in ("executions_count", "test_name", "pipeline_name")
            for direction in ("asc", "desc")
        ),
    ]
    found: list[tuple[str, str]] = []
    for first in firsts:
        base, cursor = first, ""
        while len(found) < wanted:
            response = await connection.request(base + cursor, key)
            links = ", ".join(value for name, value in response.headers if name == "link")
            following = re.search(r'cursor=([^<>&]*)[^<>]*>; rel="next"', links)
            if following is None:
                break
            cursor = f"&cursor={following[1]}"
            found.append((base, following[1]))
    return found
