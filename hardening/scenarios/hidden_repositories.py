"""An existing repository without access looks exactly like a missing one."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from hardening.findings import Finding, median, milliseconds
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection, Response
from hardening.seeding import Keys, SeededRepository, seed_store
from indexing.names import RepositoryName
from indexing.store import open_store
from tests.source_host import open_host

PAIRS = 1_000
MAX_GAP = 0.001
# Names of equal length, so that no length distinguishes them.
PRIVATE = tuple(f"umbrella/private-{number:02}" for number in range(10))
BESIDE = tuple(f"acme/private-{number:02}" for number in range(10))
TOKEN = "ghs_theTokenOfSomebodyOnTheHost0123456789"


async def run(
    harness: Harness, *, pairs: int = PAIRS, stores: Sequence[str] = STORES
) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        opened = await open_store(place)
        try:
            all_seeded = await seed_store(opened, ["acme/widgets", *PRIVATE, *BESIDE])
            keys = Keys(harness, opened)
            of_owner, of_one = await keys.make("acme"), await keys.make("acme", "widgets")
        finally:
            await opened.close()
        harness.record_credentials(TOKEN)
        foreign, beside = all_seeded[1 : 1 + len(PRIVATE)], all_seeded[1 + len(PRIVATE) :]
        async with open_host() as host:
            host.add("acme/widgets", TOKEN)
            for name in PRIVATE:
                host.add(name)
            async with harness.serve(place, host_api_url=host.base) as running:
                for who, credential, hidden in (
                    ("a key of another owner", of_owner, foreign),
                    ("a key of another repository", of_one, beside),
                    ("a token of the code host", TOKEN, foreign),
                ):
                    what = f"hidden vs. absent repository, {who}, {store}"
                    found.append(await _compare(running.port, credential, hidden, pairs, what))
    return found


async def _compare(
    port: int, credential: str, hidden: Sequence[SeededRepository], pairs: int, what: str
) -> Finding:
    connection = RawConnection(port)
    random_ = random.Random(7)
    times: dict[bool, list[float]] = {True: [], False: []}
    different = 0
    for number in range(pairs):
        private = hidden[number % len(hidden)]
        absent = RepositoryName(private.name.owner, private.name.name.replace("private", "absents"))
        operation = random_.choice(list(private.targets()))
        requests = {
            True: private.targets()[operation],
            False: private.targets(spelled=absent)[operation],
        }
        responses: dict[bool, Response] = {}
        for is_private in random_.sample([True, False], 2):
            began = time.perf_counter()
            responses[is_private] = await connection.request(requests[is_private], credential)
            times[is_private].append(time.perf_counter() - began)
        different += (
            responses[True].comparable != responses[False].comparable
            or responses[True].status != 404
        )
    connection.abort()
    gap = median(times[True]) - median(times[False])
    return Finding(
        what,
        f"{pairs:,} pairs: {different} differ, median gap {milliseconds(gap)} "
        f"of {milliseconds(median(times[False]))}",
        f"0, within {milliseconds(MAX_GAP)}",
        different == 0 and abs(gap) < MAX_GAP,
    )
