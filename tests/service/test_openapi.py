"""GET /openapi.json: it is valid and complete, and real responses match it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from indexing.events.catalogue import EVENT_TYPES
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from service.config.settings import Settings
from service.http.route import ListRoute
from service.openapi import build_document
from service.routes import (
    ADD_QUARANTINE,
    INGEST_ROUTES,
    LIST_EVENTS,
    READ_ROUTES,
    SEARCH_TESTS,
)
from tests.builders import NOON, PULL, WIDGETS, after, make_event, make_executions, make_run
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, QUARANTINES, SEARCH, TEST_STATES, TESTS, FrontDoor
from tests.spans import JSON, make_request, make_span, write


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(module_door: FrontDoor) -> dict[str, Any]:
    answer = await module_door.ask("/openapi.json", {})
    assert answer.status == 200
    served: dict[str, Any] = answer.json
    return served


def operation(document: dict[str, Any], url: str) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"][url]["get"]
    return found


async def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    validate(document)


def find_schemas(value: Any, kind: str) -> Iterator[Any]:
    """Yield all schemas of a type."""
    if isinstance(value, dict) and value.get("type") == kind:
        yield value
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from find_schemas(each, kind)


def list_served(door: FrontDoor) -> set[str]:
    """Return the paths of the API, without those of the dashboard."""
    served = {resource.canonical for resource in door.app.router.resources()}
    return {path for path in served if path != "/" and not path.startswith("/ui")}


async def test_every_route_is_in_it(shared_door: FrontDoor, document: dict[str, Any]) -> None:
    assert {*document["paths"], "/openapi.json"} == list_served(shared_door)


async def test_uploads_are_documented_only_where_they_are_accepted(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    changed = [url for url, methods in document["paths"].items() if "post" in methods]
    assert changed == [ADD_QUARANTINE.url]
    async for door in open_door(Settings(data_dir=tmp_path, ingest=True)):
        wider = (await door.ask("/openapi.json", {})).json
        validate(wider)
        assert {*wider["paths"], "/openapi.json"} == list_served(door)
        assert wider == orjson.loads(build_document(None, ingest=True))
        found = {url: path["post"] for url, path in wider["paths"].items() if "post" in path}
        del found[ADD_QUARANTINE.url]
        assert {*found} == {route.url for route in INGEST_ROUTES}
        assert "Accept-Encoding" in found[LIST_EVENTS.url]["responses"]["415"]["headers"]
        # Without, generators of clients leave an operation out.
        assert all("items" in each for each in find_schemas(wider, "array"))
        for operation in found.values():
            statuses = {"200", "400", "403", "404", "413", "414", "415", "417", "422", "429", "503"}
            assert {*operation["responses"]} == statuses
            assert operation["requestBody"]["content"]
        key = await door.new_key(Scope.INGEST)
        body = write(make_request([make_span("")]), JSON)
        answer = await door.post("/v1/repos/acme/widgets/ci/traces", body, JSON, key=key)
        assert answer.json["partialSuccess"]["rejectedSpans"] == "1"
        OAS31Validator({"$ref": "#/components/schemas/Trace", **wider}).validate(answer.json)


@pytest.mark.parametrize("route", READ_ROUTES, ids=lambda route: route.operation_id)
async def test_an_operation_documents_its_credential_and_all_its_statuses(
    document: dict[str, Any], route: Any
) -> None:
    found = operation(document, route.url)
    paged = isinstance(route, ListRoute)
    assert found["security"] == [{"bearer": []}]
    refused = {"400", "403", "404", "409", "414", "417", "422", "429", "503"}
    assert {*found["responses"]} == {"200", *refused} | ({"304"} if route.is_tagged else set())
    asks = {p["name"] for p in found["parameters"] if p["in"] == "header"}
    streams = route.stream_type is not None
    wanted = {"If-None-Match": route.is_tagged, "Last-Event-ID": streams}
    assert asks == {name for name, is_there in wanted.items() if is_there}
    for status, response in found["responses"].items():
        assert ("Vary" in response["headers"]) == (status not in refused)
        assert ("ETag" in response["headers"]) == (route.is_tagged and status not in refused)
        assert "X-Request-Id" in response["headers"]
        assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))
        assert ("Link" in response["headers"]) == (paged and status not in refused)
        assert ("X-Ignored-Parameters" in response["headers"]) == (status not in refused)
        # These are refused before the credential is checked.
        limited = {"RateLimit", "RateLimit-Policy"} <= {*response["headers"]}
        assert limited == (status not in ("414", "417"))


async def test_an_etag_is_required_where_every_response_has_one(
    document: dict[str, Any],
) -> None:
    headers = document["components"]["headers"]
    for route in READ_ROUTES:
        if not route.is_tagged:
            continue
        responses = operation(document, route.url)["responses"]
        required = {
            status: headers[responses[status]["headers"]["ETag"]["$ref"].rpartition("/")[2]].get(
                "required", False
            )
            for status in ("200", "304")
        }
        # A stream of all rows has none.
        assert required == {"200": not route.row_types, "304": True}


async def test_an_added_quarantine_names_its_place_as_documented(
    document: dict[str, Any], shared_door: FrontDoor
) -> None:
    responses = document["paths"][ADD_QUARANTINE.url]["post"]["responses"]
    named = {status for status, each in responses.items() if "Location" in each["headers"]}
    assert named == {"200", "201"}
    schema = document["components"]["headers"]["Location"]["schema"]
    key = await shared_door.new_key(Scope.QUARANTINE)
    body = orjson.dumps({"test_name": "suite.new", "reason": "flaps"})
    for status in (201, 200):
        added = await shared_door.post(QUARANTINES, body, JSON, key=key)
        assert added.status == status
        OAS31Validator(schema).validate(added.headers["Location"])


async def test_the_bounds_of_the_interface_are_in_it(document: dict[str, Any]) -> None:
    log = operation(document, LIST_EVENTS.url)["parameters"]
    by_name = {parameter["name"]: parameter for parameter in log}
    assert by_name["owner"]["schema"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 40,
        "pattern": r"^[a-zA-Z0-9\-]+$",
    }
    assert by_name["per_page"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 100}
    assert by_name["base_ref"]["schema"] == {"type": "string", "minLength": 1, "maxLength": 255}
    assert by_name["received_to"]["schema"] == {"type": "string", "format": "date-time"}
    assert {*by_name["event_type"]["schema"]["items"]["enum"]} == {*EVENT_TYPES}
    assert by_name["pull_request"]["schema"]["maxItems"] == 100
    search = operation(document, SEARCH_TESTS.url)["parameters"]
    assert [p["name"] for p in search if p["required"]] == ["owner", "repository_name", "test_name"]


async def test_a_quarantine_without_a_member_that_may_be_absent_omits_it(
    document: dict[str, Any],
) -> None:
    schema = {"$ref": "#/components/schemas/QuarantineBody", **document}
    valid = {"test_name": "t", "reason": "flaps"}
    for name in ("branch", "owner"):
        assert OAS31Validator(schema).is_valid({**valid, name: None})
        # The service refuses it.
        assert not OAS31Validator(schema).is_valid({**valid, name: ""})


async def test_patterns_mean_the_same_to_clients(document: dict[str, Any]) -> None:
    """They are those of ECMA-262, which match anywhere in a text."""

    def find(value: Any) -> Iterator[str]:
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            if name == "pattern" and isinstance(each, str):
                yield each
            elif isinstance(each, dict | list):
                yield from find(each)

    patterns = {*find(document)}
    assert patterns
    for pattern in patterns:
        assert pattern.startswith("^")
        assert pattern.endswith("$")
        assert not re.search(r"\\[AaZz]|\(\?[^:=!]", pattern)


async def test_event_types_are_distinguished_by_name(document: dict[str, Any]) -> None:
    event = document["components"]["schemas"]["Event"]
    mapping = event["discriminator"]["mapping"]
    assert [*mapping] == [*EVENT_TYPES]
    assert len(EVENT_TYPES) == 41
    assert [{"$ref": reference} for reference in mapping.values()] == event["oneOf"]


async def test_what_is_served_fits_the_document(
    shared_door: FrontDoor, document: dict[str, Any]
) -> None:
    store = shared_door.store
    run = make_run(pull=PULL)
    executions = make_executions(
        run, [("a", Conclusion.FAILED), ("b", Conclusion.PASSED)], NOON, framework="pytest"
    )
    await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    made, _ = await store.add_quarantine(WIDGETS, QuarantineRequest("a", "flaky"), NOON)
    await store.write_events(
        [
            make_event(1),
            make_event(2, event_type="action.merge", metadata={"branch": "main"}),
            make_event(
                3,
                pull_request=4,
                event_type="queue.pause.create",
                metadata={
                    "reason": "a release",
                    "created_by": {"type": "user", "id": 7, "name": "mona"},
                },
            ),
        ]
    )
    shared_door.clock.now = after(hours=1)
    tests = (await shared_door.get(f"{SEARCH}?test_name=*")).json["tests"]
    targets = {
        LOGS: "EventPage",
        f"{SEARCH}?test_name=*": "TestPage",
        QUARANTINES: "Quarantines",
        TEST_STATES: "TestStatePage",
        f"{QUARANTINES}/{made.key.id}": "Quarantine",
        f"{LOGS}?per_page=0": "InvalidRequest",
        "/v1/repos/acme/none/logs": "Problem",
        "/health/ready": "Health",
        **{f"{TESTS}/{test['test_id']}": "TestDetail" for test in tests},
    }
    assert len(tests) == 2
    for target, component in targets.items():
        schema = {"$ref": f"#/components/schemas/{component}", **document}
        OAS31Validator(schema).validate((await shared_door.get(target)).json)
