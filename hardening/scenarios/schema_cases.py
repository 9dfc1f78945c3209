"""Generated requests from the OpenAPI document: every response is one that it documents."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from multiprocessing import get_context
from typing import Any, Final

import orjson
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hardening.findings import Finding
from hardening.harness import STORES, Harness
from hardening.seeding import SeededRepository, seed_new_store, warm
from indexing.models.keys import Scope
from service.openapi import build_document
from service.routes import STREAM_EVENTS

# The checks for every response. The check that the service accepts everything a schema allows is
# left out: no schema can say which cursors are authentic, or which of two moments is later.
CHECKS: Final[tuple[CheckFunction, ...]] = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
CASES: Final = 10_000
# One case in this many is repeated with bad credentials, which takes two more requests.
_AUTH_EVERY: Final = 50
_AIMED_NOT_EVERY: Final = 4
_SECONDS: Final = 60
_AT_ONCE: Final = 500


@dataclass
class Tally:
    """The outcomes of the cases of one operation."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def cases(self) -> int:
        return self.statuses.total()


@schemathesis.serializer(
    "application/x-protobuf",
    "application/x-ndjson",
    "application/ndjson",
    "text/*",
    "application/octet-stream",
)
def _as_it_is(_: Any, value: Any) -> bytes:
    """Serialise a body whose media type has no structure in the document."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def aim(case: schemathesis.Case[Any], there: Mapping[str, str]) -> None:
    """Aim a case at existing data: else hardly any would get past a 404."""
    parameters = case.path_parameters or {}
    parameters.update({name: there[name] for name in parameters if name in there})


def send_cases(
    path: str,
    method: str,
    services: Sequence[tuple[str, str, str, Mapping[str, str]]],
    cases: int,
) -> dict[str, Tally]:
    """Send cases of one operation to every (store, address, key, path parameters)."""
    tallies = {store: Tally() for store, *_ in services}

    def send_case(case: schemathesis.Case[Any]) -> None:
        number = max(tally.cases for tally in tallies.values())
        for store, base, key, there in services:
            # The remaining cases test missing repositories.
            if number % _AIMED_NOT_EVERY:
                aim(case, there)
            checks = CHECKS if number % _AUTH_EVERY else (*CHECKS, ignored_auth)
            _send_case(case, base, key, checks, tallies[store])

    strategy = _schema()[path][method].as_strategy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Run in batches, because hypothesis remembers every case of a batch.
        while (requests := min(tally.cases for tally in tallies.values())) < cases:
            chosen = settings(
                max_examples=min(_AT_ONCE, cases - requests),
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            chosen(given(case=strategy)(send_case))()
            print(f"  {method} {path}: {tallies}", file=sys.stderr, flush=True)
    return tallies


def _send_case(
    case: schemathesis.Case[Any],
    base: str,
    key: str,
    checks: tuple[CheckFunction, ...],
    tally: Tally,
) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    response = case.call(base_url=base, headers=headers, timeout=_SECONDS)
    tally.statuses[response.status_code] += 1
    try:
        case.validate_response(response, checks=[*checks], headers=headers)
    except (Failure, FailureGroup) as failure:
        reasons = failure.exceptions if isinstance(failure, FailureGroup) else [failure]
        tally.failures.update(type(reason).__name__ for reason in reasons)


def _schema() -> Any:
    return schemathesis.openapi.from_dict(orjson.loads(build_document(None, ingest=True)))


async def run(
    harness: Harness, *, cases: int = CASES, stores: Sequence[str] = STORES
) -> list[Finding]:
    """Send the same cases to every store, because generating them takes longest."""
    services, served = [], []
    async with AsyncExitStack() as stack:
        for store in stores:
            place = await harness.new_store(store)
            (seeded,), key = await seed_new_store(
                harness, place, ["acme/widgets"], scope=Scope.ADMIN
            )
            # A line for each request would fill most of the log.
            running = await stack.enter_async_context(
                harness.serve(place, log_level="info", ingest="true")
            )
            await warm(running.port, seeded, key)
            services.append((store, f"http://127.0.0.1:{running.port}", key, _there(seeded)))
            served.append(running)
        # The other paths have only one response, and the stream of events has no end.
        operations = [
            (path, method.upper())
            for path, methods in _schema().items()
            if path.startswith("/v1/") and path != STREAM_EVENTS.url
            for method in methods
        ]
        pool = stack.enter_context(ProcessPoolExecutor(mp_context=get_context("spawn")))
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(
            *(
                loop.run_in_executor(pool, send_cases, path, method, services, cases)
                for path, method in operations
            )
        )
    service_errors = [line for running in served for line in running.service_errors()]
    return [
        _judge(store, [tallies[store] for tallies in found], cases, service_errors)
        for store in stores
    ]


def _there(seeded: SeededRepository) -> dict[str, str]:
    return {
        "owner": seeded.name.owner,
        "repository": seeded.name.name,
        "repository_name": seeded.name.name,
        "test_id": seeded.test_id,
        "quarantine_id": seeded.quarantine_id,
    }


def _judge(
    store: str, tallies: Sequence[Tally], cases: int, service_errors: Sequence[str]
) -> Finding:
    requests = sum(tally.cases for tally in tallies)
    codes = sum((tally.statuses for tally in tallies), Counter[int]())
    failures = sum((tally.failures for tally in tallies), Counter[str]())
    errors = sum(count for code, count in codes.items() if code >= HTTPStatus.INTERNAL_SERVER_ERROR)
    least = min(tally.cases for tally in tallies)
    details = [f"{count:,} × {code}" for code, count in sorted(codes.items())]
    return Finding(
        f"requests generated from the OpenAPI document, {store}",
        f"{requests:,} cases, at least {least:,} for each operation: {errors} × 5xx, "
        f"{failures.total()} undocumented responses",
        f"{cases:,} for each operation, 0, 0",
        least >= cases and not (errors or failures or service_errors),
        ", ".join(details + [f"{count} {name}" for name, count in failures.items()]),
    )
