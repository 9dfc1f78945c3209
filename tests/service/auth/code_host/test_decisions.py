"""The decision for each response of the code host, valid or not."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.code_host.decisions import (
    GRANT_LIFETIME,
    MAX_WAIT_SECONDS,
    MIN_WAIT_SECONDS,
    OUTAGE_LIFETIME,
    REFUSAL_LIFETIME,
    AccessDecision,
    CodeHostResponse,
    Finding,
    HostUnavailable,
    Moved,
    judge,
    pack_decision,
    unpack_decision,
)
from tests.builders import NOON, WIDGETS, after

BODY = orjson.dumps({"id": 7, "full_name": "ACME/widgets"})
LIMIT_HEADERS = ("retry-after", "x-ratelimit-remaining", "x-ratelimit-reset", "location")

statuses = st.integers(100, 599)
headers = st.dictionaries(
    st.sampled_from(LIMIT_HEADERS), st.one_of(st.text(max_size=30), st.integers().map(str))
)
bodies = st.one_of(st.binary(max_size=200), st.just(BODY))


@given(status=statuses, sent=headers, body=bodies)
def test_only_the_answer_of_the_repository_itself_opens_it(
    status: int, sent: dict[str, str], body: bytes
) -> None:
    found = judge(CodeHostResponse(status, sent, body), WIDGETS, NOON)
    assert (found is Finding.READABLE) == (status == 200 and body == BODY)
    if isinstance(found, HostUnavailable):
        assert MIN_WAIT_SECONDS <= found.seconds <= MAX_WAIT_SECONDS


@given(status=statuses, sent=headers, body=bodies, number=st.integers(0, 10**18))
def test_a_second_redirect_is_not_followed(
    status: int, sent: dict[str, str], body: bytes, number: int
) -> None:
    found = judge(CodeHostResponse(status, sent, body), Moved(number), NOON)
    assert not isinstance(found, Moved)
    assert (found is Finding.READABLE) == (status == 200 and body == BODY and number == 7)


@pytest.mark.parametrize("finding", Finding)
def test_a_decision_is_decoded_as_it_was(finding: Finding) -> None:
    decision = AccessDecision(finding, after(microseconds=1))
    assert unpack_decision(pack_decision(decision)) == decision


def test_clocks_of_two_machines_may_differ_a_little() -> None:
    decision = AccessDecision(Finding.READABLE, after(seconds=5))
    assert decision.is_fresh(NOON)
    assert decision.outlasts(NOON)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_only_a_redirect_with_the_same_method_that_names_a_repository_is_one(status: int) -> None:
    sent = {"location": "https://code.example/repositories/7"}
    found = judge(CodeHostResponse(status, sent, b""), WIDGETS, NOON)
    # A code host answers 302 to sign a person in, for example.
    expected = Moved(7) if status in (301, 307, 308) else HostUnavailable(5)
    assert found == expected


def test_a_host_that_is_down_says_when_it_will_be_back() -> None:
    down = CodeHostResponse(503, {"retry-after": "7"}, b"")
    assert judge(down, WIDGETS, NOON) == HostUnavailable(7)


def test_a_decision_of_a_later_day_is_not_valid() -> None:
    decision = AccessDecision(Finding.READABLE, after(hours=1))
    assert not decision.is_fresh(NOON)
    assert not decision.outlasts(NOON)


def test_refusals_count_for_less_long_than_grants_and_not_in_an_outage() -> None:
    assert timedelta(0) < REFUSAL_LIFETIME < GRANT_LIFETIME < OUTAGE_LIFETIME
    for finding in (Finding.HIDDEN, Finding.BAD_CREDENTIAL):
        assert not AccessDecision(finding, NOON).outlasts(NOON)
    assert AccessDecision(Finding.READABLE, NOON).outlasts(after(seconds=61))


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0"}, MIN_WAIT_SECONDS),
        ({"retry-after": "86400"}, MAX_WAIT_SECONDS),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}, MIN_WAIT_SECONDS),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 12}, MAX_WAIT_SECONDS),
        ({"retry-after": "9" * 5_000}, 60),
        ({"retry-after": "soon"}, 60),
        ({"retry-after": "²"}, 60),
        # There are requests left: another limit is used up, which this time is not about.
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "9" * 12}, 60),
        ({}, 60),
    ],
)
def test_the_hosts_own_time_is_kept_to_within_bounds(sent: dict[str, str], seconds: int) -> None:
    assert judge(CodeHostResponse(429, sent, b""), WIDGETS, NOON) == HostUnavailable(
        seconds, limited=True
    )


@pytest.mark.parametrize(
    "message",
    [
        b"You have exceeded a secondary rate limit.",
        b"API Rate Limit exceeded for user ID 1.",
        b"You have triggered an abuse detection mechanism.",
        b"Please try again later.",
    ],
)
def test_a_rate_limit_stated_only_in_text_is_no_refusal(message: bytes) -> None:
    assert isinstance(judge(CodeHostResponse(403, {}, message), WIDGETS, NOON), HostUnavailable)
