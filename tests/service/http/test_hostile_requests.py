"""Requests generated from the OpenAPI document: every response is one that it documents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from indexing.models.quarantines import QuarantineRequest
from service.config.settings import Settings
from service.openapi import build_document
from tests.builders import WIDGETS, after, load_names, make_event
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor

# Generating the requests takes many seconds.
pytestmark = pytest.mark.slow

# The checks of every response. The check that everything a schema allows is accepted is missing: no
# schema can say which cursors are authentic, or which of two times is the later one.
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    ignored_auth,
)


async def fill(door: FrontDoor) -> None:
    await door.store.write_events([make_event(number) for number in range(20)])
    await load_names(door.store, [f"hinge.{number}" for number in range(20)])
    await door.store.add_quarantine(WIDGETS, QuarantineRequest("hinge.1", "flaky"), after())
    door.clock.now = after(hours=1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontDoor]:
    """The service on its own thread, because the client blocks the thread that it runs on."""
    opened: list[FrontDoor] = []
    loop = asyncio.new_event_loop()
    ready, done = threading.Event(), asyncio.Event()

    async def serve(data_dir: Path) -> None:
        async for door in open_door(Settings(data_dir=data_dir)):
            await fill(door)
            opened.append(door)
            ready.set()
            await done.wait()

    thread = threading.Thread(
        target=loop.run_until_complete, args=[serve(tmp_path_factory.mktemp("data"))]
    )
    thread.start()
    assert ready.wait(30)
    yield opened[0]
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


DOCUMENT = orjson.loads(build_document(None))
SETTINGS = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
OPERATIONS = sorted(
    operation["operationId"]
    for path in DOCUMENT["paths"].values()
    for operation in path.values()
    # A stream of events has no end.
    if operation["operationId"] != "streamEvents"
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_answer_is_undocumented(operation: str, served: FrontDoor) -> None:
    # A schema whose tests pytest collects generates many of the requests in every test process.
    schema = schemathesis.openapi.from_dict(DOCUMENT).include(operation_id=operation)

    def check(case: schemathesis.Case[Any]) -> None:
        parameters = case.path_parameters or {}
        if "owner" in parameters:
            # Otherwise nearly all generated requests would fail at the repository.
            parameters["owner"] = "acme"
            name = "repository" if "repository" in parameters else "repository_name"
            parameters[name] = "widgets"
        case.call_and_validate(
            base_url=served.base,
            headers={"Authorization": f"Bearer {served.key}"},
            checks=[*CHECKS],
            timeout=10,
        )

    (made,) = get_all_tests(schema=schema, test_func=check, settings=SETTINGS, given_kwargs=None)
    assert isinstance(made, Ok)
    _, test = made.ok()
    test()
