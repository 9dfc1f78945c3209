"""The OpenAPI document as a page shows it: operations, parameters, trees of fields. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import orjson

from service.ui.formats import show_count

# Each group, and the parts of a path that put an operation into it; the first match counts.
_GROUPS: Final = (
    ("Event log", ("/logs",)),
    ("Quarantines", ("/quarantines", "/test-states")),
    ("Results that arrive", ("/traces", "/runs")),
    ("Tests", ("/v1/ci/",)),
    ("Service", ("/",)),
)
# Nested deeper than this, a field shows only the name of its type.
_MAX_DEPTH: Final = 6
_METHODS: Final = ("get", "post", "delete")
_EXAMPLES: Final = {"owner": "acme", "repository": "widgets", "repository_name": "widgets"}
_LIMITS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {}"),
    ("maxLength", "at most {}"),
    ("minItems", "at least {}"),
    ("maxItems", "at most {}"),
    ("pattern", "matches {}"),
)
# What the limits of a size count.
_COUNTED: Final = {
    "minLength": "character",
    "maxLength": "character",
    "minItems": "time",
    "maxItems": "time",
}
_FEW_CHOICES: Final = 12


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `choices` lists its values if it is an enumeration.

    `field` is its name in a form. It differs from `name` if a parameter of the path has that name.
    """

    name: str
    field: str
    place: str
    kind: str
    is_required: bool
    is_repeated: bool
    description: str
    limits: Sequence[str]
    default: str | None
    choices: Sequence[str]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body; `parts` are its own fields, or its alternative types."""

    name: str
    kind: str
    is_required: bool
    parts: Sequence[Field] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """A body of one media type."""

    media_type: str
    kind: str
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of an operation with one status."""

    status: str
    description: str
    bodies: Sequence[Body]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation of the document."""

    id: str
    group: str
    method: str
    path: str
    summary: str
    needs_key: bool
    parameters: Sequence[Parameter]
    sent: Sequence[Body]
    replies: Sequence[Reply]


@lru_cache(maxsize=1)
def read_document(text: bytes) -> Mapping[str, ApiOperation]:
    """Return the operations of an OpenAPI document by id, ordered by group."""
    document = orjson.loads(text)
    found = [
        _read_operation(document, path, method, item[method])
        for path, item in document["paths"].items()
        for method in _METHODS
        if method in item
    ]
    order = [name for name, _ in _GROUPS]
    return {each.id: each for each in sorted(found, key=lambda each: order.index(each.group))}


def make_url(
    operation: ApiOperation, values: Mapping[str, Sequence[str]], examples: Mapping[str, str]
) -> str:
    """Return the path and query of a call; `examples` fill in missing path parameters."""
    path, query = operation.path, []
    for parameter in operation.parameters:
        given = [each for each in values.get(parameter.field, ()) if each]
        if parameter.place == "path":
            text = given[0] if given else examples.get(parameter.name, parameter.name.upper())
            path = path.replace(f"{{{parameter.name}}}", quote(text, safe=""))
        elif parameter.place == "query":
            if not given and parameter.is_required and examples:
                given = [parameter.choices[0] if parameter.choices else "*"]
            # RFC 3986 allows `*` as it is in a query; globs are easier to read so.
            query += [f"{parameter.name}={quote(each, safe='*')}" for each in given]
    return f"{path}?{'&'.join(query)}" if query else path


def make_curl(operation: ApiOperation, base: str, values: Mapping[str, Sequence[str]]) -> str:
    """Return a curl command for a call; it takes the key from the environment."""
    lines = ["curl"]
    if operation.method != "get":
        lines[0] += f" -X {operation.method.upper()}"
    if operation.needs_key:
        lines.append('  -H "Authorization: Bearer $MERGEWATCH_KEY"')
    if operation.sent:
        lines.append(f"  -H 'Content-Type: {operation.sent[0].media_type}' --data-binary @body")
    if any(body.media_type == "text/event-stream" for body in operation.replies[0].bodies):
        lines[0] += " -N"
    lines.append(f"  {shlex.quote(base + make_url(operation, values, _EXAMPLES))}")
    return " \\\n".join(lines)


def _read_operation(
    document: Mapping[str, Any], path: str, method: str, found: Mapping[str, Any]
) -> ApiOperation:
    sent = found.get("requestBody", {}).get("content", {})
    return ApiOperation(
        id=found["operationId"],
        group=next(name for name, parts in _GROUPS if any(part in path for part in parts)),
        method=method,
        path=path,
        summary=found["summary"],
        needs_key=bool(found.get("security")),
        parameters=_read_parameters(found.get("parameters", ())),
        sent=_read_bodies(document, sent),
        replies=[
            Reply(status, each["description"], _read_bodies(document, each.get("content", {})))
            for status, each in sorted(found["responses"].items())
        ],
    )


def _read_parameters(found: Sequence[Mapping[str, Any]]) -> list[Parameter]:
    path = {each["name"] for each in found if each["in"] == "path"}
    return [
        _read_parameter(each, f"query.{name}" if each["in"] == "query" and name in path else name)
        for each in found
        for name in [each["name"]]
    ]


def _read_parameter(found: Mapping[str, Any], field: str) -> Parameter:
    schema = found["schema"]
    is_repeated = schema.get("type") == "array"
    inner = schema["items"] if is_repeated else schema
    limits = [
        text.format(show_count(each[key], _COUNTED[key]) if key in _COUNTED else each[key])
        for each in _levels(schema)
        for key, text in _LIMITS
        if key in each
    ]
    default = schema.get("default")
    return Parameter(
        name=found["name"],
        field=field,
        place=found["in"],
        kind=_name_type(inner),
        is_required=bool(found.get("required")),
        is_repeated=is_repeated,
        description=found.get("description", ""),
        limits=limits,
        default=None if default is None else str(default),
        choices=[str(each) for each in inner.get("enum", ())],
    )


def _levels(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [schema, schema["items"]] if schema.get("type") == "array" else [schema]


def _read_bodies(document: Mapping[str, Any], content: Mapping[str, Any]) -> list[Body]:
    return [
        Body(media_type, _name_type(each["schema"]), _list_fields(document, each["schema"], ()))
        for media_type, each in content.items()
    ]


def _list_fields(
    document: Mapping[str, Any], schema: Mapping[str, Any], above: tuple[str, ...]
) -> list[Field]:
    """Return the fields of an object or of the items of a list, or the alternatives of a value."""
    schema, above = _resolve(document, schema, above)
    if len(above) > _MAX_DEPTH:
        return []
    if schema.get("type") == "array" or "items" in schema:
        return _list_fields(document, schema.get("items", {}), above)
    shapes = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
    if shapes:
        return [
            Field(_name_type(each), "shape", is_required=False, parts=parts)
            for each in shapes
            if (parts := _list_fields(document, each, above))
        ]
    required = schema.get("required", ())
    return [
        Field(name, _name_type(each), name in required, _list_fields(document, each, above))
        for name, each in schema.get("properties", {}).items()
    ]


def _resolve(
    document: Mapping[str, Any], schema: Mapping[str, Any], above: tuple[str, ...]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the component that a schema refers to; an empty schema if it contains itself."""
    while "$ref" in schema:
        name = _component(schema)
        if name in above:
            return {}, above
        schema, above = document["components"]["schemas"][name], (*above, name)
    return schema, above


def _component(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _name_type(schema: Mapping[str, Any]) -> str:
    """Describe the type of a value in a few words."""
    if "$ref" in schema:
        return _component(schema)
    shapes = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
    if shapes:
        return " or ".join(dict.fromkeys(map(_name_type, shapes)))
    if "const" in schema:
        return f'"{schema["const"]}"'
    choices = [str(each) for each in schema.get("enum", ()) if each is not None]
    found = schema.get("type", "any")
    types = found if isinstance(found, list) else [found]
    if 0 < len(choices) <= _FEW_CHOICES:
        words = [" | ".join(choices), *(["null"] if "null" in types else [])]
    elif "array" in types:
        words = [f"list of {_name_type(schema.get('items', {}))}"]
        words += [each for each in types if each != "array"]
    else:
        words = [str(schema.get("format", each)) if each == "string" else each for each in types]
    return " or ".join(words)
