"""Cached values: signatures, codecs, size limits, and ETags as clients send them."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.lru import OVERHEAD, Lru
from indexing.models.keys import ApplicationKey, Scope
from indexing.models.trends import HealthCounts
from service.cache.answers import key_of_answer, make_answer, pack_answer, unpack_answer
from service.cache.codecs import HEALTH_COUNTS_CODEC, pack_key, unpack_key
from service.cache.keys import (
    COPY_LIFETIME,
    LIFETIMES,
    LONGEST_LIFETIME,
    RESPONSE_LIFETIME,
    Kind,
    key_of_credential,
)
from service.cache.signing import CacheSigner
from service.http.conditional import is_known
from service.pagination.cursor import Ends
from tests.builders import FOREIGN, NOON, WIDGETS, after

SIGNER = CacheSigner(b"a secret of the store")
VERSIONS = (b"0" * 16, b"1" * 16)
MOMENTS = st.none() | st.datetimes().map(lambda moment: NOON + (moment - moment.min) / 1000)


@given(st.text(), st.lists(st.binary(min_size=16, max_size=16), max_size=3), st.binary())
def test_a_signed_value_is_verified_under_its_name_and_versions(
    name: str, versions: list[bytes], payload: bytes
) -> None:
    assert SIGNER.verify(name, versions, SIGNER.sign(name, versions, payload)) == payload


@given(st.binary(max_size=200))
def test_a_value_that_was_not_signed_here_is_refused(data: bytes) -> None:
    assert SIGNER.verify("test:acme/widgets:1", VERSIONS, data) is None


@given(st.integers(0, 49), st.integers(1, 255))
def test_one_changed_byte_is_noticed(at: int, change: int) -> None:
    signed = bytearray(SIGNER.sign("n", VERSIONS, b"x" * 34))
    signed[at] ^= change
    assert SIGNER.verify("n", VERSIONS, bytes(signed)) is None


def test_a_value_is_refused_under_another_name_version_or_secret() -> None:
    signed = SIGNER.sign("n", VERSIONS, b"payload")
    assert SIGNER.verify("m", VERSIONS, signed) is None
    assert SIGNER.verify("n", VERSIONS[::-1], signed) is None
    assert SIGNER.verify("n", VERSIONS[:1], signed) is None
    assert CacheSigner(b"another secret").verify("n", VERSIONS, signed) is None
    # The name ends with the first byte of the version: it is still a different name.
    assert SIGNER.verify("n0", (b"0" * 15, b"1" * 16), signed) is None


@given(
    st.binary(max_size=300),
    st.none() | st.tuples(st.binary(max_size=700), st.binary(max_size=700)),
    st.booleans(),
    st.booleans(),
    MOMENTS,
    MOMENTS,
)
def test_an_answer_comes_back_as_it_was(
    body: bytes,
    ends: tuple[bytes, bytes] | None,
    before: bool,
    beyond: bool,
    since: object,
    until: object,
) -> None:
    first, last = ends or (None, None)
    answer = make_answer(body, Ends(first, last, before, beyond), since, until)  # type: ignore[arg-type]  # drawn
    assert unpack_answer(pack_answer(answer)) == answer


def test_an_answer_holds_from_its_moment_until_its_end() -> None:
    answer = make_answer(b"", since=NOON, until=after(hours=1))
    assert answer.holds_at(NOON)
    assert answer.holds_at(after(hours=1) - timedelta(microseconds=1))
    assert not answer.holds_at(after(hours=1))
    assert not answer.holds_at(NOON - timedelta(minutes=1))
    assert make_answer(b"").holds_at(NOON - timedelta(days=9))


@pytest.mark.parametrize("expires_at", [None, after(days=1)])
def test_a_key_comes_back_without_its_digest_being_kept(expires_at: object) -> None:
    key = ApplicationKey(
        "k", "ci", Scope.INGEST, "acme", "widgets", b"\x07" * 32, NOON, None, after(hours=1)
    )
    packed = pack_key(key)
    assert unpack_key(key.digest, packed) == key
    for text in (key.digest, key.digest.hex().encode()):
        assert text not in packed
        assert text not in key_of_credential(key.digest).name.encode()


COUNTS = st.dictionaries(st.sampled_from(["broken", "flaky"]), st.integers(-5, 5))


@given(COUNTS, st.dictionaries(st.integers(0, 2**31), COUNTS))
def test_counts_of_health_come_back_as_they_were(
    before: dict[str, int], changes: dict[int, dict[str, int]]
) -> None:
    counts = HealthCounts(before, changes)
    assert HEALTH_COUNTS_CODEC.unpack(HEALTH_COUNTS_CODEC.pack(counts)) == counts


def test_questions_of_two_repositories_kinds_or_filters_have_two_names() -> None:
    names = {
        key_of_answer(kind, repository, canonical).name
        for kind in (Kind.TEST, Kind.SEARCH)
        for repository in (WIDGETS, FOREIGN)
        for canonical in (b"a", b"b")
    }
    assert len(names) == 8


def test_no_cached_value_of_a_revoked_key_outlives_a_minute() -> None:
    assert max(LIFETIMES.values()) + COPY_LIFETIME + RESPONSE_LIFETIME <= LONGEST_LIFETIME < 60


def test_the_longest_unused_make_room() -> None:
    lru: Lru[str] = Lru(3 * (OVERHEAD + 10))
    later = time.monotonic() + 3600
    for name in "abc":
        lru.keep(name, name, 10, later)
    assert lru.find("a") == "a"
    lru.keep("d", "d", 10, later)
    assert [name for name in "abcd" if lru.find(name)] == ["a", "c", "d"]
    lru.keep("a", "new", 5, later)
    assert lru.find("a") == "new"
    assert lru.size <= 3 * (OVERHEAD + 10)
    lru.keep("huge", "h", 10_000, later)
    assert lru.find("huge") is None
    assert len(lru) == 3


def test_a_value_whose_time_is_over_is_gone() -> None:
    lru: Lru[str] = Lru(10_000)
    lru.keep("a", "a", 1, time.monotonic())
    assert lru.find("a") is None
    assert (len(lru), lru.size) == (0, 0)


def test_expired_values_are_evicted_without_a_lookup() -> None:
    lru: Lru[str] = Lru(10_000_000)
    for number in range(100):
        lru.keep(number, "a", 1, time.monotonic())
    lru.keep("b", "b", 1, time.monotonic() + 60)
    assert len(lru) == 1


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        (['"e"'], True),
        (['W/"e"'], True),
        (["*"], True),
        ([" * "], True),
        (['"a", "e"'], True),
        (['"a","b"', 'W/"c" , W/"e"'], True),
        (['"a, "e"'], True),
        ([], False),
        ([""], False),
        (['"f"'], False),
        (["e"], False),
        (['"E"'], False),
        (['w/"e"'], False),
        (['"a*"'], False),
        (['"e"x'], False),
    ],
)
def test_entity_tags_are_compared_weakly_wherever_they_stand(
    fields: list[str], known: bool
) -> None:
    assert is_known(fields, '"e"') is known


@given(st.lists(st.text(max_size=40), max_size=3))
def test_no_field_breaks_the_comparison(fields: list[str]) -> None:
    assert is_known(fields, '"0123"') in (True, False)
