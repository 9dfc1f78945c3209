"""Missing, malformed, expired, revoked and foreign credentials: 403, always with the same body.

Foreign credentials belong to other services and other stores. `hidden_repositories` tests valid
keys that request another owner's data: they get 404.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from hardening.bad_credentials import Texts, variants
from hardening.findings import Finding
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection
from hardening.seeding import Keys, SeededRepository, seed_store
from indexing.models.keys import Scope
from indexing.store import open_store
from service.auth.api_keys import make_key
from tests.places import Place
from tests.source_host import open_host

VARIANTS = 50


async def run(harness: Harness, *, stores: Sequence[str] = STORES) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        seeded, texts = await _prepare(harness, place)
        async with open_host() as host:
            for setting in ({}, {"host_api_url": host.base}):
                what = f"bad credentials, {store}" + ", with a code host" * bool(setting)
                async with harness.serve(place, ingest="true", **setting) as running:
                    finding = await _request_all(running.port, seeded, variants(texts), what)
                found.append(finding)
    return found


async def _prepare(harness: Harness, place: Place) -> tuple[SeededRepository, Texts]:
    opened = await open_store(place)
    try:
        (seeded,) = await seed_store(opened, ["acme/widgets"])
        keys = Keys(harness, opened)
        now = datetime.now(UTC)
        texts = Texts(
            good=await keys.make("acme", scope=Scope.ADMIN),
            revoked=await keys.make("acme", scope=Scope.ADMIN, key_id="revoked"),
            expired=await keys.make(
                "acme", scope=Scope.ADMIN, expires_at=now - timedelta(seconds=1)
            ),
            other=make_key(
                key_id="other",
                name="of another store",
                scope=Scope.ADMIN,
                owner="acme",
                repository=None,
                created_at=now,
            )[0],
        )
        await opened.revoke_key("revoked", now)
    finally:
        await opened.close()
    harness.record_credentials(texts.other, *texts.foreign[:-1])
    return seeded, texts


async def _request_all(
    port: int, seeded: SeededRepository, each: Sequence[tuple[bytes, ...]], what: str
) -> Finding:
    reads = list(seeded.targets().values())
    writes = [
        "/v1/repos/acme/widgets/logs",
        "/v1/ci/acme/repositories/widgets/traces",
        "/v1/repos/acme/widgets/ci/traces",
    ]
    probes = [("GET", target, b"") for target in reads]
    probes += [("POST", target, b"{}") for target in writes]
    connection = RawConnection(port)
    answers: Counter[tuple[int, bytes]] = Counter()
    stray: list[str] = []
    for method, target, body in probes:
        for number, headers in enumerate(each):
            response = await connection.request(target, None, *headers, method=method, body=body)
            answers[response.status, response.body] += 1
            if response.status != HTTPStatus.FORBIDDEN:
                stray.append(f"{response.status} to variant {number} of {method} {target}")
    connection.abort()
    bodies = len({body for _, body in answers})
    return Finding(
        what,
        f"{len(each)} variants × {len(probes)} operations: {answers.total() - len(stray)} × "
        f"403, {len(stray)} others, {bodies} body",
        f"{VARIANTS} or more variants, 403 only, 1 body",
        len(each) >= VARIANTS and not stray and bodies == 1,
        "; ".join(stray[:3]),
    )
