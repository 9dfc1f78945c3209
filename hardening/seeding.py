"""Seeds the stores of scenarios with data that shows its owner in every response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from hardening.harness import Harness
from hardening.raw_http import RawConnection
from indexing.failures.fingerprint import normalise_message
from indexing.identifiers import derive_failure_id, derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.interface import Store
from service.auth.api_keys import make_key
from tests.builders import make_event, make_executions, make_run
from tests.places import Place

TESTS = tuple(f"suite.test_{number:02}" for number in range(25))
FAILING = "suite.test_failing"
EVENTS = 40
_WARM = 20
# A range whose bars do not move with the time.
_ALL_TIME = "received_from=2000-01-01T00:00:00Z&received_to=2100-01-01T00:00:00Z"


@dataclass(frozen=True)
class SeededRepository:
    """A repository with test data: its name, its mark, and the ids of its data."""

    name: RepositoryName
    mark: str
    quarantine_id: str

    @property
    def test_id(self) -> str:
        return str(derive_test_id(self.name, TESTS[0]))

    @property
    def failing_id(self) -> str:
        return str(derive_test_id(self.name, FAILING))

    @property
    def failure_id(self) -> str:
        shape = normalise_message(self.mark)
        return str(derive_failure_id(derive_test_id(self.name, FAILING), "", shape))

    def targets(
        self, *, spelled: RepositoryName | None = None, of: SeededRepository | None = None
    ) -> dict[str, str]:
        """Return a target of each operation, in that spelling, with the ids of `of` if given."""
        name, ids = spelled or self.name, of or self
        ci = f"/v1/ci/{name.owner}/repositories/{name.name}"
        return {
            "events": f"/v1/repos/{name.owner}/{name.name}/logs?per_page=5",
            "event-aggregate": f"/v1/repos/{name.owner}/{name.name}/logs/aggregate?{_ALL_TIME}",
            "search": f"{ci}/search/tests?test_name=*_1*&sort=test_name",
            "search by metrics": f"{ci}/search/tests?test_name=*_1*&sort=health_status"
            "&include=metrics&include=total&health_status_exclude=broken&quarantined=false",
            "test": f"{ci}/tests/{ids.test_id}",
            "quarantines": f"{ci}/quarantines",
            "quarantines with details": f"{ci}/quarantines?include=details",
            "quarantine": f"{ci}/quarantines/{ids.quarantine_id}",
            "executions": f"{ci}/tests/{ids.test_id}/executions?per_page=5",
            "runs": f"{ci}/runs",
            "stats": f"{ci}/tests/stats/executions",
            "test-stats": f"{ci}/tests/{ids.test_id}/stats/mean_duration",
            "groups by pipeline": f"{ci}/tests/groups?by=pipeline",
            "groups by directory": f"{ci}/tests/groups?by=directory",
            "groups by owner": f"{ci}/tests/groups?by=owner",
            "transitions": f"{ci}/health-transitions",
            "test-transitions": f"{ci}/tests/{ids.test_id}/health-transitions",
            "health": f"{ci}/tests/{ids.test_id}/health",
            "failures": f"{ci}/tests/{ids.failing_id}/failures",
            "failure": f"{ci}/tests/{ids.failing_id}/failures/{ids.failure_id}",
        }


@dataclass
class Keys:
    """Creates keys in a store and records each."""

    harness: Harness
    store: Store = field(repr=False)

    async def make(
        self,
        owner: str,
        repository: str | None = None,
        *,
        scope: Scope = Scope.READ,
        expires_at: datetime | None = None,
        key_id: str | None = None,
    ) -> str:
        text, record = make_key(
            key_id=key_id or uuid.uuid4().hex,
            name="hardening",
            scope=scope,
            owner=owner,
            repository=repository,
            created_at=datetime.now(UTC) - timedelta(days=1),
            expires_at=expires_at,
        )
        await self.store.add_key(record)
        self.harness.record_credentials(text)
        return text


async def seed_store(store: Store, names: Sequence[str]) -> list[SeededRepository]:
    """Seed a store with these repositories; their data differs only by a mark in every value."""
    return [
        await _seed_one(store, RepositoryName(*name.split("/")), number)
        for number, name in enumerate(names)
    ]


async def _seed_one(store: Store, name: RepositoryName, number: int) -> SeededRepository:
    mark = f"mark-{number:03}."
    # Within the default time range of the log.
    now = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    await store.ensure_repository(name)
    await store.set_code_owners(name, f"* @{mark}")
    await store.write_events(
        [make_event(n, now, repository=name, trigger=mark) for n in range(EVENTS)]
    )
    run = make_run(pipeline=mark, job="unit")
    results = [(test, Conclusion.PASSED) for test in TESTS]
    await store.write_results(
        name, {run: make_executions(run, results, now, repository=name, filepath=f"{mark}/test.py")}
    )
    failed = make_executions(
        run, [(FAILING, Conclusion.FAILED)], now, repository=name, failure_message=mark
    )
    await store.write_results(name, {run: failed})
    await store.refresh_tests(now)
    request = QuarantineRequest(TESTS[1], mark)
    quarantine, _ = await store.add_quarantine(name, request, now)
    return SeededRepository(name, mark, str(quarantine.key.id))


async def seed_new_store(
    harness: Harness,
    place: Place,
    names: Sequence[str],
    *,
    scope: Scope = Scope.READ,
    key_id: str | None = None,
) -> tuple[list[SeededRepository], str]:
    """Seed the store; return its repositories and a key of the first owner."""
    store = await open_store(place)
    try:
        all_seeded = await seed_store(store, names)
        return all_seeded, await Keys(harness, store).make(
            all_seeded[0].name.owner, scope=scope, key_id=key_id
        )
    finally:
        await store.close()


async def warm(port: int, seeded: SeededRepository, key: str) -> None:
    """Request everything until each answer is quick, as in a service that has run a while."""
    connection = RawConnection(port)
    for target in seeded.targets().values():
        right = 0
        while right < _WARM:
            right += (await connection.request(target, key)).status == HTTPStatus.OK
    connection.abort()
