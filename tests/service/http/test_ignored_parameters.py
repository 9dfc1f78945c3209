"""Parameters that an operation does not have: they have no effect, and the response lists them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from service.config.settings import Settings
from service.http.query_string import MAX_NAME_LENGTH, MAX_NAMES, MORE, name_ignored, unquote
from tests.builders import WIDGETS, after, load_names
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, QUARANTINES, SEARCH, TESTS, FrontDoor
from tests.spans import JSON, make_request, make_span, write

HEADER = "X-Ignored-Parameters"


@pytest.fixture
async def targets(door: FrontDoor) -> list[str]:
    """Return a target of each operation, which is answered by 200."""
    await load_names(door.store, ["a", "b"])
    made, _ = await door.store.add_quarantine(WIDGETS, QuarantineRequest("a", "flaky"), after())
    door.clock.now = after(hours=1)
    test = (await door.get(f"{SEARCH}?test_name=a")).json["tests"][0]["test_id"]
    return [
        LOGS,
        f"{SEARCH}?test_name=*",
        f"{TESTS}/{test}",
        QUARANTINES,
        f"{QUARANTINES}/{made.key.id}",
    ]


def with_query(target: str, query: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}{query}"


async def test_every_answer_names_what_had_no_effect(door: FrontDoor, targets: list[str]) -> None:
    for target in targets:
        plain = await door.get(target)
        assert HEADER not in plain.headers
        asked = with_query(target, "health=flaky&b=1&health=broken&Per_Page=2")
        # The second response may come from the cache.
        for method in ("GET", "GET", "HEAD"):
            answer = await door.get(asked, method=method)
            assert answer.status == 200
            assert answer.headers.getall(HEADER) == ["Per_Page, b, health"]
            assert answer.links.keys() == plain.links.keys()
        tag = answer.headers.get("ETag")
        if tag is not None:
            assert tag == plain.headers["ETag"]
            for _ in range(2):
                same = await door.get(asked, **{"If-None-Match": tag})
                assert (same.status, same.headers[HEADER]) == (304, "Per_Page, b, health")


async def test_uploads_list_ignored_parameters_too(tmp_path: Path) -> None:
    async for door in open_door(Settings(data_dir=tmp_path, ingest=True)):
        key = await door.new_key(Scope.INGEST)
        body = write(make_request([make_span("a")]), JSON)
        for target in (
            "/v1/ci/acme/repositories/widgets/traces",
            "/v1/repos/acme/widgets/ci/traces",
        ):
            sent = await door.post(f"{target}?dry_run=1", body, JSON, key=key)
            assert (sent.status, sent.headers[HEADER]) == (200, "dry_run")
        sent = await door.post(f"{LOGS}?dry_run", b"", "application/x-ndjson", key=key)
        assert (sent.status, sent.headers[HEADER]) == (200, "dry_run")


async def test_pages_elsewhere_may_read_it(tmp_path: Path) -> None:
    async for door in open_door(Settings(data_dir=tmp_path, cors_origins=("*",))):
        answer = await door.get(f"{LOGS}?x=1", Origin="https://a.example")
        assert HEADER in answer.headers["Access-Control-Expose-Headers"].split(", ")


@pytest.mark.parametrize(
    "name", ["a\r\nX-Evil: 1", "a\nb", "é", "\0", "a, b", '"', "\u2028", "\x7f", "*", "a" * 64]
)
async def test_a_name_is_returned_in_harmless_characters(embedded: FrontDoor, name: str) -> None:
    answer = await embedded.get(f"{QUARANTINES}?{quote(name, safe='')}=1")
    assert answer.headers.getall(HEADER) == [quote(name, safe="")]
    assert "X-Evil" not in answer.headers


@given(st.sets(st.text(), max_size=40))
def test_the_header_is_short_sorted_and_plain_whatever_was_sent(names: set[str]) -> None:
    raw = {quote(name, safe="", errors="surrogatepass") for name in names}
    value = name_ignored(raw)
    if value is None:
        assert names <= {""}
        return
    assert re.fullmatch(r"[A-Za-z0-9%._~*\-]+(, [A-Za-z0-9%._~*\-]+)*", value)
    *told, last = value.split(", ")
    told = told if last == MORE else [*told, last]
    assert told == sorted(set(told))
    assert len(told) <= MAX_NAMES
    assert all(len(name) <= MAX_NAME_LENGTH for name in told)
    assert {unquote(name) for name in told} <= {unquote(name) for name in raw}
    if last != MORE:
        assert len(told) == len(names - {""})
