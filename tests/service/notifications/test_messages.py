"""The bodies of notifications, also with hostile names."""

from __future__ import annotations

import uuid
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.errors import InvalidValueError
from indexing.models.notifications import Notification, NotificationType, QuarantineNotice
from indexing.models.quarantines import QuarantineSource
from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName
from service.notifications.messages import MAX_SHOWN_LENGTH, make_slack, make_standard
from service.notifications.registration import host_of, parse_secret, parse_url
from tests.builders import NOON, WIDGETS, after

ID = uuid.UUID(int=1)
CHANGE = Notification(
    ID, NotificationType.FLAKY, NOON, uuid.UUID(int=2), "hinge", HealthStatus.HEALTHY
)
QUARANTINE = replace(
    CHANGE,
    type=NotificationType.QUARANTINED,
    previous=None,
    quarantine=QuarantineNotice(
        uuid.UUID(int=3), "it sticks", QuarantineSource.MANUAL, "release/*", after(days=2)
    ),
)


def lines_of(*notifications: Notification) -> list[str]:
    body = orjson.loads(make_slack(WIDGETS, notifications).body)
    text: str = body.pop("text")
    assert body == {"unfurl_links": False, "unfurl_media": False}
    return text.split("\n")


def test_a_change_of_health_says_what_changed() -> None:
    message = make_standard(WIDGETS, CHANGE)
    assert message.id == str(ID)
    assert orjson.loads(message.body) == {
        "type": "test.flaky",
        "timestamp": "2026-09-01T12:00:00Z",
        "data": {
            "repository": "acme/widgets",
            "test_id": str(CHANGE.test_id),
            "test_name": "hinge",
            "health_status": "flaky",
            "previous_health_status": "healthy",
        },
    }


def test_a_quarantine_says_why_where_and_until_when() -> None:
    assert orjson.loads(make_standard(WIDGETS, QUARANTINE).body)["data"] == {
        "repository": "acme/widgets",
        "test_id": str(CHANGE.test_id),
        "test_name": "hinge",
        "quarantine_id": str(uuid.UUID(int=3)),
        "reason": "it sticks",
        "source": "manual",
        "branch": "release/*",
        "expires_at": "2026-09-03T12:00:00Z",
    }


def test_a_message_links_to_the_test_where_there_is_a_dashboard() -> None:
    url = f"https://ci.example/mergewatch/ui/acme/widgets/tests/{CHANGE.test_id}"
    home = "https://ci.example/mergewatch/ui/"
    assert orjson.loads(make_standard(WIDGETS, CHANGE, home).body)["data"]["url"] == url
    lines = orjson.loads(make_slack(WIDGETS, [CHANGE, QUARANTINE], home).body)["text"].split("\n")
    assert [line.endswith(f" (<{url}|show>)") for line in lines] == [True, True]
    hostile = RepositoryName("a|<!channel>", "b c>/..")
    (line,) = orjson.loads(make_slack(hostile, [CHANGE], home).body)["text"].split("\n")
    assert f"(<{home}a%7C%3C%21channel%3E/b%20c%3E%2F../tests/{CHANGE.test_id}|show>)" in line


def test_slack_gets_a_line_for_each() -> None:
    recovered = replace(CHANGE, type=NotificationType.RECOVERED, previous=HealthStatus.BROKEN)
    expiring = replace(QUARANTINE, type=NotificationType.EXPIRING)
    assert lines_of(CHANGE, recovered, QUARANTINE, expiring) == [
        "`acme/widgets`: `hinge` became flaky (was healthy)",
        "`acme/widgets`: `hinge` recovered (was broken)",
        "`acme/widgets`: `hinge` was quarantined on `release/*`: `it sticks`",
        "`acme/widgets`: the quarantine of `hinge` on `release/*` ends at 2026-09-03 12:00 UTC",
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<!channel>", "&lt;!channel&gt;"),
        ("<https://evil.example|login>", "&lt;https://evil.example|login&gt;"),
        ("a & b", "a &amp; b"),
        ("@here", "@\u200bhere"),
        ("a` <@U1> `b", "a' &lt;@\u200bU1&gt; 'b"),
        ("one\ntwo\rthree\u2028four", "one two three four"),
        ("\u202etxet", " txet"),
        ("x" * 5_000, "x" * (MAX_SHOWN_LENGTH - 1) + "…"),
    ],
)
def test_a_hostile_name_is_shown_as_a_name(name: str, shown: str) -> None:
    (line,) = lines_of(replace(CHANGE, test_name=name))
    assert line == f"`acme/widgets`: `{shown}` became flaky (was healthy)"


@given(st.text(max_size=300))
def test_no_name_can_break_out_of_its_code_span(name: str) -> None:
    (line,) = lines_of(replace(CHANGE, test_name=name))
    assert line.count("`") == 4
    assert not set("<>\n\r") & set(line)


@given(st.text(min_size=1).map(lambda text: text * 5_000))
def test_no_body_is_larger_than_receivers_have_to_take(text: str) -> None:
    quarantine = QUARANTINE.quarantine
    assert quarantine is not None
    hostile = replace(
        QUARANTINE, test_name=text, quarantine=replace(quarantine, reason=text, branch=text)
    )
    assert len(make_standard(WIDGETS, hostile, "https://ci.example/ui/").body) <= 20_000


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "https://",
        "https:///path",
        "https://user:password@a.example/",
        "https://a.example/#part",
        "https://a.example:0/",
        "https://[::1/",
        "https://a.example/ b",
        "https://a.example/\nb",
        "https://a.example/é",
        "https://a.example/" + "a" * 2_048,
        "file:///etc/passwd",
        "hooks.example",
        "http://127.1/",
        "http://2130706433/",
        "http://127.0.0.1./",
        "http://0x7f.1:8080/",
        "http://a.0x/",
        "http://127%2E1/",
        "http://a..b/",
        f"http://{'a' * 64}.b/",
    ],
)
def test_an_invalid_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        parse_url(url)
    assert "a.example" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://a.example/ b", "https://a.example/\nb", "https://a.é/"])
def test_the_error_says_if_characters_of_a_url_are_wrong(url: str) -> None:
    with pytest.raises(InvalidValueError, match="must be one line of ASCII, without spaces"):
        parse_url(url)


def test_a_url_may_come_from_a_file_and_is_shown_without_its_path() -> None:
    url = parse_url("https://hooks.example:8443/T000/B000/hush\n")
    assert url == "https://hooks.example:8443/T000/B000/hush"
    assert host_of(url) == "https://hooks.example:8443"
    for host in ("127.0.0.1", "[::1]", "1.example", "example.", "x0.0x.a1"):
        assert parse_url(f"https://{host}/") == f"https://{host}/"


@pytest.mark.parametrize("text", ["", "short", "whsec_c2hvcnQ=", "!" * 40, "YQ==" * 40])
def test_a_weak_secret_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_secret(text)


def test_a_secret_has_its_usual_prefix_or_none() -> None:
    text = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n"
    assert parse_secret(text) == parse_secret("whsec_" + text) == b"012345678901234567890123"
