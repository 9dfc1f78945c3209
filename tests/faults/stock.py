"""The contents of the store in the fault tests, and all requests that clients send for them."""

from __future__ import annotations

from datetime import timedelta

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from indexing.store import open_store
from service.auth.api_keys import make_key
from tests.builders import NOON, WIDGETS, after, make_event, make_executions, make_run
from tests.places import Place
from tests.service.front_door import LOGS, QUARANTINES, SEARCH, TESTS

EVENTS = 35
NAMES = tuple(f"test_{number:02}" for number in range(25))
QUARANTINED = NAMES[:12]

# The range covers three monthly slices.
EVENTS_PAGE = f"{LOGS}?received_from=2026-07-01T00:00:00Z&per_page=10"
DETAIL = f"{TESTS}/{derive_test_id(WIDGETS, NAMES[3])}"
# The service caches these for a minute, so they need no store.
KEPT = (DETAIL, QUARANTINES)
# It never caches this one.
UNCACHED = f"{DETAIL}/health"
# The first pages of every list; clients follow the links to the rest.
TARGETS = (
    EVENTS_PAGE,
    f"{SEARCH}?test_name=*&sort=test_name&per_page=10",
    f"{SEARCH}?test_name=*_1*",
    DETAIL,
    UNCACHED,
    QUARANTINES,
    f"{QUARANTINES}?per_page=5",
)


async def fill(place: Place) -> str:
    """Fill a store; return the text of a key that reads it."""
    store = await open_store(place)
    try:
        await store.ensure_repository(WIDGETS)
        await store.write_events(
            [make_event(n, NOON - timedelta(days=n), pull_request=n) for n in range(EVENTS)]
        )
        for hour in range(3):
            run = make_run(str(hour))
            failed = NAMES[hour]
            results = [(n, Conclusion.FAILED if n == failed else Conclusion.PASSED) for n in NAMES]
            executions = make_executions(run, results, after(hours=hour))
            await store.write_results(WIDGETS, {run: executions})
        await store.refresh_tests(NOON)
        for minutes, name in enumerate(QUARANTINED):
            request = QuarantineRequest(name, "fails now and then")
            await store.add_quarantine(WIDGETS, request, after(minutes=minutes))
        text, record = make_key(
            key_id="fault",
            name="faults",
            scope=Scope.READ,
            owner="acme",
            repository=None,
            created_at=NOON,
        )
        await store.add_key(record)
        return text
    finally:
        await store.close()
