"""POST .../traces over HTTP: paths, encodings and permissions, whatever is stored already."""

from __future__ import annotations

import gzip
import uuid

import pytest

from indexing.models.keys import Scope
from indexing.otlp.requests import MAX_SPANS
from tests.builders import FOREIGN
from tests.service.front_door import LOGS, FrontDoor
from tests.service.handlers.sending import ALIAS, KINDS, TRACES, assert_refused, names_of
from tests.spans import JSON, PROTOBUF, make_request, make_span, write


@pytest.mark.parametrize("target", [TRACES, ALIAS])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packing", [None, "gzip", "GZIP", "identity"])
async def test_results_are_accepted_on_both_paths_in_both_encodings(
    shared_open: FrontDoor, target: str, kind: str, packing: str | None
) -> None:
    body = write(make_request([make_span("a"), make_span("b", "failed")]), kind)
    headers = {} if packing is None else {"Content_Encoding": packing}
    if packing and packing.lower() == "gzip":
        body = gzip.compress(body)
    name = uuid.uuid4().hex
    target = target.replace("widgets", name)
    answer = await shared_open.post(target, body, f"{kind}; charset=utf-8", **headers)
    assert (answer.status, answer.body) == (200, b"" if kind == PROTOBUF else b"{}")
    assert await names_of(shared_open, name) == ["a", "b"]


async def test_with_the_setting_the_path_takes_nothing_but_post(shared_open: FrontDoor) -> None:
    answer = await shared_open.get(TRACES)
    assert_refused(answer, 405)
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("target", [TRACES, ALIAS, LOGS])
@pytest.mark.parametrize("scope", list(Scope))
async def test_a_scope_of_reading_sends_nothing(
    shared_open: FrontDoor, target: str, scope: Scope
) -> None:
    kind = "text/plain" if target == LOGS else PROTOBUF
    answer = await shared_open.post(target, b"", kind, key=await shared_open.new_key(scope))
    assert (answer.status == 403) == (scope in (Scope.READ, Scope.QUARANTINE))
    assert answer.status in (200, 403)


@pytest.mark.parametrize("pattern", ["/v1/ci/{}/repositories/{}/traces", "/v1/repos/{}/{}/logs"])
async def test_checks_come_in_their_order(shared_open: FrontDoor, pattern: str) -> None:
    await shared_open.store.ensure_repository(FOREIGN)
    reads = await shared_open.new_key(Scope.READ)
    garbage, kind = b"\xff", "image/png"
    no_credential = await shared_open.ask(pattern.format("ac_me", "w"), {}, "POST", garbage)
    assert_refused(no_credential, 403)
    bad_path = await shared_open.post(pattern.format("ac_me", "w"), garbage, kind)
    assert bad_path.wrong_fields == [("path", "owner")]
    foreign = await shared_open.post(pattern.format("umbrella", "widgets"), garbage, kind)
    nowhere = await shared_open.post(pattern.format("umbrella", "nothing"), garbage, kind)
    absent = await shared_open.post(pattern.format("acme", "new"), garbage, kind, key=reads)
    assert_refused(foreign, 404)
    assert foreign.body == nowhere.body == absent.body
    known = await shared_open.post(pattern.format("acme", "widgets"), garbage, kind, key=reads)
    assert_refused(known, 403)
    assert_refused(await shared_open.post(pattern.format("acme", "widgets"), garbage, kind), 415)


async def test_more_spans_than_one_request_may_hold_are_refused(shared_open: FrontDoor) -> None:
    spans = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * MAX_SPANS + b"{}]}]}]}"
    answer = await shared_open.post(TRACES, spans, JSON)
    assert_refused(answer, 413)
    assert str(MAX_SPANS) in answer.json["detail"]
