"""Sends events and spans, and reads back the tests that are known then."""

from __future__ import annotations

from typing import Any

import orjson

from indexing.timestamps import format_timestamp
from tests.builders import NOON
from tests.service.front_door import SEARCH, Answer, FrontDoor, assert_problem
from tests.spans import JSON, PROTOBUF

TRACES = "/v1/ci/acme/repositories/widgets/traces"
ALIAS = "/v1/repos/acme/widgets/ci/traces"

NDJSON = "application/x-ndjson"
KINDS = (PROTOBUF, JSON)


def make_line(number: int, repository: str = "acme/widgets", **members: Any) -> bytes:
    event = {
        "id": number,
        "received_at": format_timestamp(NOON),
        "trigger": "rule",
        "repository": repository,
        "pull_request": None,
        "base_ref": None,
        "type": "action.rebase",
        "metadata": {},
        **members,
    }
    return orjson.dumps(event) + b"\n"


def assert_refused(answer: Answer, status: int) -> None:
    assert answer.status == status, answer.body
    assert_problem(status, answer.headers["Content-Type"], answer.body)


async def names_of(door: FrontDoor, repository: str = "widgets") -> list[str]:
    search = SEARCH.replace("widgets", repository)
    found = (await door.get(f"{search}?test_name=*&sort=test_name&direction=asc")).json["tests"]
    return [test["test_name"] for test in found]
