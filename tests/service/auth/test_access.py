"""Access control: credentials, visibility and scopes, and the order of the checks."""

from __future__ import annotations

import string
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.models.keys import Scope
from service.auth.api_keys import KEY_PREFIX, digest_key, is_key, make_key
from tests.builders import FOREIGN, NOON, after
from tests.service.front_door import LOGS, FrontDoor, operations

NAMES = tuple(operations())


def a_key() -> str:
    text, _ = make_key(
        key_id="1", name="n", scope=Scope.READ, owner="acme", repository=None, created_at=NOON
    )
    return text


def test_a_key_is_stored_by_its_digest_alone() -> None:
    text, record = make_key(
        key_id="1", name="n", scope=Scope.READ, owner="acme", repository=None, created_at=NOON
    )
    assert record.digest == digest_key(text)
    assert text not in repr(record)
    assert text.startswith(KEY_PREFIX)
    assert len(text) == 52


def test_no_two_keys_are_alike() -> None:
    assert len({a_key() for _ in range(50)}) == 50


@given(at=st.integers(0, 51), new=st.sampled_from(string.ascii_letters + string.digits + "_ é"))
def test_one_mistyped_character_is_noticed(at: int, new: str) -> None:
    text = a_key()
    mistyped = text[:at] + new + text[at + 1 :]
    assert is_key(mistyped) == (mistyped == text)


@given(st.text(max_size=60))
def test_other_text_is_never_accepted_as_a_key(text: str) -> None:
    assert not is_key(text)


@pytest.mark.parametrize("operation", NAMES)
async def test_every_bad_credential_gets_the_same_answer(
    shared_door: FrontDoor, operation: str
) -> None:
    target = operations()[operation]
    revoked = await shared_door.add_key(key_id=f"revoked for {operation}")
    await shared_door.store.revoke_key(f"revoked for {operation}", NOON)
    expired = await shared_door.add_key(expires_at=NOON)
    good = shared_door.key
    bad: list[list[tuple[str, str]]] = [
        [],
        [("Authorization", "")],
        [("Authorization", "Bearer")],
        [("Authorization", good)],
        [("Authorization", f"Basic {good}")],
        [("Authorization", f"Bearer {good}x")],
        [("Authorization", f"Bearer {good} {good}")],
        [("Authorization", f"Bearer {good[:-1]}")],
        [("Authorization", f"Bearer {a_key()}")],
        [("Authorization", "Bearer ghp_0123456789")],
        [("Authorization", f"Bearer {revoked}")],
        [("Authorization", f"Bearer {expired}")],
        [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")],
    ]
    answers = [await shared_door.ask(target, headers) for headers in bad]
    assert {answer.status for answer in answers} == {403}
    assert len({answer.body for answer in answers}) == 1


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER ", "Bearer   "])
async def test_the_scheme_is_read_as_rfc_9110_says(shared_door: FrontDoor, scheme: str) -> None:
    answer = await shared_door.ask(LOGS, {"Authorization": scheme + shared_door.key})
    assert answer.status == 200


async def test_a_key_works_until_the_moment_it_expires(shared_door: FrontDoor) -> None:
    key = await shared_door.add_key(expires_at=after(hours=1))
    assert (await shared_door.get(LOGS, key=key)).status == 200
    shared_door.clock.now = after(hours=1)
    assert (await shared_door.get(LOGS, key=key)).status == 403


async def test_a_mistyped_key_is_not_looked_up(
    embedded: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: bytes) -> None:
        raise AssertionError

    monkeypatch.setattr(embedded.reader, "find_key", fail)
    last = "0" if embedded.key[-1] != "0" else "1"
    assert (await embedded.get(LOGS, key=embedded.key[:-1] + last)).status == 403


@pytest.mark.parametrize("operation", NAMES)
async def test_absent_and_foreign_repositories_answer_alike_to_the_byte(
    shared_door: FrontDoor, operation: str
) -> None:
    await shared_door.store.ensure_repository(FOREIGN)
    absent = await shared_door.get(operations("acme", "nothing")[operation])
    foreign = await shared_door.get(operations("umbrella", "widgets")[operation])
    nowhere = await shared_door.get(operations("nobody", "nothing")[operation])
    assert {absent.status, foreign.status, nowhere.status} == {404}
    assert absent.body == foreign.body == nowhere.body


@pytest.mark.parametrize("operation", NAMES)
async def test_a_key_of_one_repository_sees_no_other(
    shared_door: FrontDoor, operation: str
) -> None:
    gadgets = await shared_door.new_key(repository="gadgets")
    other = await shared_door.get(operations("acme", "widgets")[operation], key=gadgets)
    absent = await shared_door.get(operations("acme", "nothing")[operation], key=gadgets)
    assert (other.status, other.body) == (404, absent.body)
    own = await shared_door.get(operations("acme", "gadgets")[operation], key=gadgets)
    assert own.body != absent.body
    namesake = await shared_door.new_key(owner=FOREIGN.owner, repository="widgets")
    other = await shared_door.get(operations("acme", "widgets")[operation], key=namesake)
    assert (other.status, other.body) == (404, absent.body)


@pytest.mark.parametrize("repository", [None, "WIDGETS"])
@pytest.mark.parametrize("operation", NAMES)
async def test_names_match_without_regard_to_case(
    shared_door: FrontDoor, operation: str, repository: str | None
) -> None:
    key = await shared_door.new_key(owner="AcMe", repository=repository)
    plain = await shared_door.get(operations()[operation])
    shouted = await shared_door.get(operations("ACME", "Widgets")[operation], key=key)
    assert (shouted.status, shouted.body) == (plain.status, plain.body)


@pytest.mark.parametrize("operation", NAMES)
@pytest.mark.parametrize("scope", list(Scope))
async def test_a_scope_opens_its_own_operations(
    shared_door: FrontDoor, operation: str, scope: Scope
) -> None:
    key = await shared_door.new_key(scope)
    answer = await shared_door.get(operations()[operation], key=key)
    allowed = scope is not Scope.INGEST or operation in {"quarantines", "quarantine", "test-states"}
    assert (answer.status != 403) == allowed


async def test_a_missing_scope_is_named_with_those_that_would_do(shared_door: FrontDoor) -> None:
    events, quarantines = operations()["events"], operations()["quarantines"]
    sender, reader = await shared_door.new_key(Scope.INGEST), await shared_door.new_key()
    refused = await shared_door.get(events, key=sender)
    assert refused.json["detail"] == (
        "the scope ingest does not cover this operation, which needs the scope"
        " read, quarantine or admin"
    )
    refused = await shared_door.post(quarantines, b"{}", "application/json", key=reader)
    assert refused.json["detail"] == (
        "the scope read does not cover this operation, which needs the scope quarantine or admin"
    )


async def test_a_missing_scope_does_not_reveal_a_hidden_repository(
    shared_door: FrontDoor,
) -> None:
    await shared_door.store.ensure_repository(FOREIGN)
    key = await shared_door.new_key(Scope.INGEST)
    assert (await shared_door.get(operations()["events"], key=key)).status == 403
    hidden = await shared_door.get(operations("umbrella", "widgets")["events"], key=key)
    absent = await shared_door.get(operations("acme", "nothing")["events"], key=key)
    assert hidden.status == 404
    assert hidden.body == absent.body


async def test_checks_come_in_their_order(shared_door: FrontDoor) -> None:
    ingest = await shared_door.new_key(Scope.INGEST)
    bad_path, absent, bad_query = "/v1/repos/ac_me", "/v1/repos/acme/nothing", "?per_page=0"
    assert (await shared_door.ask(f"{bad_path}/w/logs{bad_query}", {})).status == 403
    assert (await shared_door.get(f"{bad_path}/w/logs{bad_query}")).wrong_fields == [
        ("path", "owner")
    ]
    assert (await shared_door.get(f"{absent}/logs{bad_query}")).status == 404
    assert (await shared_door.get(LOGS + bad_query, key=ingest)).status == 403
    assert (await shared_door.get(LOGS + bad_query)).wrong_fields == [("query", "per_page")]


async def test_routes_that_do_not_exist_answer_before_credentials_are_looked_at(
    shared_door: FrontDoor,
) -> None:
    assert (await shared_door.ask("/v1/nothing", {})).status == 404
    refused = await shared_door.ask(LOGS, {}, "DELETE")
    assert refused.status == 405
    assert set(refused.headers["Allow"].split(",")) == {"GET", "HEAD"}


async def test_a_repository_that_a_new_key_names_is_known_and_empty(shared_door: FrontDoor) -> None:
    key = await shared_door.new_key(owner="newcomer", repository="first")
    answer = await shared_door.get(operations("newcomer", "first")["events"], key=key)
    assert (answer.status, answer.json["events"]) == (200, [])


async def test_a_key_that_expired_long_ago_stays_refused(shared_door: FrontDoor) -> None:
    key = await shared_door.add_key(expires_at=NOON - timedelta(days=1))
    assert (await shared_door.get(LOGS, key=key)).status == 403
