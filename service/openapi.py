"""Builds the OpenAPI document from the same schemas that serve the requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from apispec.ext.marshmallow.openapi import OpenAPIConverter
from marshmallow import Schema, fields

from indexing.events.alternatives import Alternatives
from indexing.events.catalogue import CATALOGUE
from indexing.otlp.requests import JSON, PROTOBUF
from service.http.problems import PROBLEM_TYPE, TITLES
from service.http.query_string import IGNORED_HEADER, MAX_NAMES, MORE
from service.http.raw_response import PRIVATE
from service.http.response_headers import REQUEST_ID_HEADER
from service.http.route import ListRoute, Route
from service.middleware.rate_limit import LIMIT_HEADER, POLICY_HEADER
from service.pagination.paginator import MAX_LINK_BYTES
from service.routes import (
    CHANGE_ROUTES,
    EVENT_MEDIA_TYPES,
    INGEST_ROUTES,
    LAST_EVENT_ID,
    READ_ROUTES,
)
from service.schemas.fields import Fragment
from service.schemas.insight_answers import (
    ExecutionPageAnswer,
    FailureDetailAnswer,
    FailurePageAnswer,
    HealthReportAnswer,
    RepositoryPageAnswer,
    RunPageAnswer,
    SeriesAnswer,
    TestGroupsAnswer,
    TestSeriesAnswer,
    TestTransitionsAnswer,
    TransitionPageAnswer,
)
from service.schemas.responses import (
    AddedQuarantineAnswer,
    EventAggregateAnswer,
    EventIntakeAnswer,
    EventPageAnswer,
    HealthAnswer,
    InvalidAnswer,
    ProblemAnswer,
    QuarantineAnswer,
    QuarantineChangesAnswer,
    QuarantinesAnswer,
    TestDetailAnswer,
    TestPageAnswer,
    TestStatePageAnswer,
    TraceAnswer,
)

OPENAPI_VERSION: Final = "3.1.0"

_BINARY: Final = {"type": "string", "format": "binary"}
_OBJECTS: Final = {"type": "array", "items": {"type": "object"}}
# The schema of each media type that a request body may have.
_BODIES: Final[Mapping[str, Mapping[str, Any]]] = {
    **{kind: {"type": "string"} for kind in EVENT_MEDIA_TYPES},
    PROTOBUF: _BINARY,
    JSON: {"type": "object", "properties": {"resourceSpans": _OBJECTS}},
}

_ANSWERS: Final[Mapping[str, type[Schema]]] = {
    "EventAggregate": EventAggregateAnswer,
    "TestPage": TestPageAnswer,
    "TestDetail": TestDetailAnswer,
    # Before `Quarantines`, which contains it and would register it first.
    "Quarantine": QuarantineAnswer,
    "Quarantines": QuarantinesAnswer,
    "TestStatePage": TestStatePageAnswer,
    "ExecutionPage": ExecutionPageAnswer,
    "FailurePage": FailurePageAnswer,
    "FailureDetail": FailureDetailAnswer,
    "RunPage": RunPageAnswer,
    "RepositoryPage": RepositoryPageAnswer,
    "HealthReport": HealthReportAnswer,
    "Series": SeriesAnswer,
    "TestSeries": TestSeriesAnswer,
    "TestGroups": TestGroupsAnswer,
    "TransitionPage": TransitionPageAnswer,
    "TestTransitions": TestTransitionsAnswer,
    "QuarantineChanges": QuarantineChangesAnswer,
    "AddedQuarantine": AddedQuarantineAnswer,
    "Problem": ProblemAnswer,
    "InvalidRequest": InvalidAnswer,
    "Health": HealthAnswer,
}
_INGEST_ANSWERS: Final[Mapping[str, type[Schema]]] = {
    "EventIntake": EventIntakeAnswer,
    "Trace": TraceAnswer,
}

# 429 is included: the operator, or a proxy before the service, may set a rate limit.
_STATUSES: Final = (400, 403, 404, 409, 414, 417, 422, 429, 503)
_WRITE_STATUSES: Final = (400, 403, 404, 413, 414, 415, 417, 422, 429, 503)
_WITH_RETRY_AFTER: Final = frozenset({429, 503})
# The headers of every response to a credential, and those of a response that is sent before the
# credential is checked.
_EVERYWHERE: Final = (REQUEST_ID_HEADER, LIMIT_HEADER, POLICY_HEADER)
_BEFORE: Final = (REQUEST_ID_HEADER,)
_BEFORE_CREDENTIAL: Final = frozenset({414, 417})

# The component of the optional header `ETag` of lists that can be streamed.
_ETAG_OF_PAGES: Final = "ETag-of-pages"

_HEADERS: Final[Mapping[str, Any]] = {
    REQUEST_ID_HEADER: {
        "description": "The id of this request. A well-formed id sent by the client is kept.",
        "required": True,
        "schema": {"type": "string"},
    },
    "Link": {
        "description": "Links to the first, previous, next and last page (RFC 8288). If they "
        f"exceed {MAX_LINK_BYTES} bytes together, some are dropped; the link that continues in the "
        "direction of paging is dropped last.",
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "Where to read and remove what was added: a URL, or an absolute path.",
        "required": True,
        "schema": {"type": "string", "format": "uri-reference"},
    },
    IGNORED_HEADER: {
        "description": "Request parameters that this operation does not know and ignored: sorted, "
        f"percent-encoded, at most {MAX_NAMES}; `{MORE}` stands for the rest.",
        "schema": {"type": "string", "pattern": r"^[A-Za-z0-9%._~*\-]+(, [A-Za-z0-9%._~*\-]+)*$"},
    },
    LIMIT_HEADER: {
        "description": "What the credential has left, if the operator set a rate limit: `r` "
        "requests for `t` seconds. A structured field of draft-ietf-httpapi-ratelimit-headers-10.",
        "schema": {"type": "string"},
    },
    POLICY_HEADER: {
        "description": "The rate limit: `q` requests in `w` seconds.",
        "schema": {"type": "string"},
    },
    "ETag": {
        "description": "Send it in If-None-Match to learn whether the response has changed.",
        "required": True,
        "schema": {"type": "string", "pattern": '^"[0-9a-f]+"$'},
    },
    _ETAG_OF_PAGES: {
        "description": "As `ETag`. Pages have one, streams of all rows have none.",
        "schema": {"type": "string", "pattern": '^"[0-9a-f]+"$'},
    },
    "Cache-Control": {
        "description": "A client may cache the response, and must revalidate it before each use.",
        "required": True,
        "schema": {"type": "string", "const": PRIVATE["Cache-Control"]},
    },
    "Vary": {
        "description": "The response depends on the credential, and on the media type where "
        "there are several.",
        "required": True,
        # With CORS, the response depends on the origin, too.
        "schema": {"type": "string", "pattern": f"^{PRIVATE['Vary']}(, *Accept)?(, *Origin)?$"},
    },
    "Retry-After": {
        "description": "How many seconds to wait before a retry.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "Accept-Encoding": {
        "description": "The encodings that are accepted, if that of the body is not.",
        "schema": {"type": "string"},
    },
}

_IF_NONE_MATCH: Final[Mapping[str, Any]] = {
    "in": "header",
    "name": "If-None-Match",
    "required": False,
    "description": "The ETags of the responses that the client holds (RFC 9110, section 13.1.2).",
    "schema": {"type": "string"},
}
_LAST_EVENT_ID: Final[Mapping[str, Any]] = {
    "in": "header",
    "name": LAST_EVENT_ID,
    "required": False,
    "description": "The id of the last event that the client has: the stream goes on after it.",
    "schema": {"type": "string"},
}


class _Converter(OpenAPIConverter):
    def field2property(self, field: fields.Field[Any]) -> dict[str, Any]:
        """Write a field of several shapes as `anyOf`: a wide shape also accepts a narrower one."""
        if isinstance(field, Fragment):
            return {"$ref": f"#/components/schemas/{field.component}"}
        if not isinstance(field, Alternatives):
            return super().field2property(field)
        shapes = [self.field2property(option) for option in field.options]
        return {"anyOf": [*shapes, {"type": "null"}] if field.allow_none else shapes}


class _Plugin(MarshmallowPlugin):
    Converter = _Converter


def build_document(public_url: str | None, *, ingest: bool = False) -> bytes:
    """Return the document as JSON text; with `ingest`, it includes the uploads."""
    plugin = _Plugin(schema_name_resolver=_component_name)
    spec = APISpec(
        title="mergewatch",
        version=version("mergewatch"),
        openapi_version=OPENAPI_VERSION,
        plugins=[plugin],
        info={"description": "Pull-request automation events and the health of CI tests."},
        servers=[{"url": public_url or "/"}],
    )
    converter = plugin.converter
    if converter is None:
        raise RuntimeError("the plugin was not initialised")
    spec.components.security_scheme(
        "bearer",
        {
            "type": "http",
            "scheme": "bearer",
            "description": "An application key, or a token of the code host if the operator has "
            "configured one.",
        },
    )
    for name, header in _HEADERS.items():
        spec.components.header(name, dict(header))
    answers = {**_ANSWERS, **_INGEST_ANSWERS} if ingest else _ANSWERS
    for name, schema in answers.items():
        spec.components.schema(name, schema=schema)
    _add_events(spec)
    for route in (*READ_ROUTES, *CHANGE_ROUTES, *(INGEST_ROUTES if ingest else ())):
        operation = _operation(route, converter)
        spec.path(route.url, operations={route.method: operation})
    for url, page in _operations_pages().items():
        spec.path(url, operations={"get": page})
    return orjson.dumps(spec.to_dict())


def _component_name(schema: type[Schema] | Schema | str) -> str:
    if isinstance(schema, str):
        return schema
    owner = schema if isinstance(schema, type) else type(schema)
    return owner.__name__.removesuffix("Answer")


def _add_events(spec: APISpec) -> None:
    mapping = {}
    for declared in CATALOGUE.values():
        name = declared.envelope.__name__
        spec.components.schema(name, schema=declared.envelope)
        mapping[declared.name] = f"#/components/schemas/{name}"
    spec.components.schema(
        "Event",
        {
            "oneOf": [{"$ref": reference} for reference in mapping.values()],
            "discriminator": {"propertyName": "type", "mapping": mapping},
        },
    )
    spec.components.schema("EventPage", schema=EventPageAnswer)


def _operation(route: Route, converter: OpenAPIConverter) -> dict[str, Any]:
    parameters = _parameters(route, converter)
    headers = [*_EVERYWHERE]
    if route.method == "get":
        headers += PRIVATE
    if route.is_tagged:
        headers.append("ETag")
    if isinstance(route, ListRoute):
        headers.append("Link")
    if HTTPStatus.CREATED in route.statuses:
        headers.append("Location")
    headers.append(IGNORED_HEADER)
    answer = _answer(route, headers)
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "parameters": parameters,
        "security": [{"bearer": []}],
    }
    statuses: Sequence[int] = _STATUSES
    if route.method != "get":
        statuses = _WRITE_STATUSES
    if route.media_types:
        content = {
            kind: {"schema": dict(_BODIES[kind]) if route.body is None else route.body}
            for kind in route.media_types
        }
        operation["requestBody"] = {"required": True, "content": content}
    if route.body is not None:
        statuses = (*statuses, 409)
    successes = {str(status): answer for status in route.statuses}
    operation["responses"] = {**successes, **_problems(statuses)}
    if route.is_tagged:
        operation["responses"]["304"] = {
            "description": "Not modified: the cached response is current.",
            "headers": _header_references(headers),
        }
    return operation


def _parameters(route: Route, converter: OpenAPIConverter) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "in": "path",
            "name": parameter.name,
            "required": True,
            "schema": dict(parameter.schema),
        }
        for parameter in route.path
    ]
    if route.is_tagged:
        parameters.append(dict(_IF_NONE_MATCH))
    if route.stream_type is not None:
        parameters.append(dict(_LAST_EVENT_ID))
    if route.query is not None:
        parameters += converter.schema2parameters(route.query, location="query")
    return parameters


def _answer(route: Route, headers: Sequence[str]) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": "Success.",
        "headers": _header_references(headers),
    }
    if route.answer is not None:
        answer = _response("Success.", route.answer, JSON, headers)
    if route.binary_answer is not None:
        answer["content"][route.binary_answer] = {"schema": _BINARY}
    if route.stream_type is not None:
        answer["content"] = {route.stream_type: {"schema": {"type": "string"}}}
        answer["description"] = "Server-sent events; `data` is the JSON text of an event."
    if route.row_types:
        answer["headers"]["ETag"] = {"$ref": f"#/components/headers/{_ETAG_OF_PAGES}"}
    for media_type in route.row_types:
        answer["content"][media_type] = {"schema": {"type": "string"}}
    return answer


def _problems(statuses: Sequence[int]) -> dict[str, Any]:
    return {
        str(status): _response(
            TITLES[status],
            "InvalidRequest" if status == 422 else "Problem",
            PROBLEM_TYPE,
            [
                *(_BEFORE if status in _BEFORE_CREDENTIAL else _EVERYWHERE),
                *(["Retry-After"] if status in _WITH_RETRY_AFTER else []),
                *(["Accept-Encoding"] if status == 415 else []),
            ],
        )
        for status in statuses
    }


def _response(
    description: str, component: str, content_type: str, headers: Sequence[str]
) -> dict[str, Any]:
    return {
        "description": description,
        "headers": _header_references(headers),
        "content": {content_type: {"schema": {"$ref": f"#/components/schemas/{component}"}}},
    }


def _header_references(names: Sequence[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _operations_pages() -> dict[str, Any]:
    well = {"200": _response("Healthy.", "Health", JSON, [REQUEST_ID_HEADER, IGNORED_HEADER])}
    return {
        "/health/live": {
            "operationId": "getLiveness",
            "summary": "Liveness: the process responds",
            "security": [],
            "responses": well,
        },
        "/health/ready": {
            "operationId": "getReadiness",
            "summary": "Readiness: the process and its store respond",
            "security": [],
            "responses": {**well, **_problems([503])},
        },
    }
