"""The bodies of notifications. Pure.

Names are untrusted. They are cut, and escaped in text for people, so that they can contain neither
mentions nor markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import orjson

from indexing.models.notifications import Notification, NotificationType, Webhook
from indexing.names import RepositoryName
from indexing.timestamps import format_timestamp

# These limits keep a body below 20 KB, the size up to which Standard Webhooks are accepted.
MAX_NAME_LENGTH: Final = 2_000
MAX_REASON_LENGTH: Final = 500
# The maximum length of a name or reason in a line for people.
MAX_SHOWN_LENGTH: Final = 200

_HEALTH: Final = {
    NotificationType.FLAKY: "flaky",
    NotificationType.BROKEN: "broken",
    NotificationType.RECOVERED: "healthy",
}
_SLACK_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'"})
# Some servers that accept messages for Slack treat a plain `@name` as a mention.
_NO_MENTION: Final = "@\u200b"


@dataclass(frozen=True, slots=True)
class Message:
    """The body of a request, and the id by which receivers recognise duplicates."""

    id: str
    body: bytes


def make_standard(
    repository: RepositoryName, notification: Notification, dashboard_url: str | None = None
) -> Message:
    """Return a message of Standard Webhooks, with a link to the test if there is a dashboard."""
    data: dict[str, Any] = {
        "repository": str(repository),
        "test_id": str(notification.test_id),
        "test_name": _cut(notification.test_name, MAX_NAME_LENGTH),
    }
    if dashboard_url is not None:
        data["url"] = _url_of(dashboard_url, repository, notification)
    if notification.type in _HEALTH:
        previous = notification.previous
        data["health_status"] = _HEALTH[notification.type]
        data["previous_health_status"] = None if previous is None else previous.value
    quarantine = notification.quarantine
    if quarantine is not None:
        expires_at = quarantine.expires_at
        data |= {
            "quarantine_id": str(quarantine.id),
            "reason": _cut(quarantine.reason, MAX_REASON_LENGTH),
            "source": quarantine.source.value,
            "branch": None
            if quarantine.branch is None
            else _cut(quarantine.branch, MAX_REASON_LENGTH),
            "expires_at": None if expires_at is None else format_timestamp(expires_at),
        }
    return _standard(str(notification.id), notification.type.value, notification.at, data)


def make_slack(
    repository: RepositoryName,
    notifications: Sequence[Notification],
    dashboard_url: str | None = None,
) -> Message:
    """Return a message for Slack with one line per notification, and links to the dashboard."""
    lines = [f"{_code(str(repository))}: {_describe(each)}" for each in notifications]
    if dashboard_url is not None:
        urls = [_url_of(dashboard_url, repository, each) for each in notifications]
        lines = [f"{line} (<{url}|show>)" for line, url in zip(lines, urls, strict=True)]
    return _slack(str(notifications[0].id), lines)


def make_test(webhook: Webhook, message_id: str, now: datetime) -> Message:
    """Return a message with which an operator tests a webhook."""
    if webhook.secret:
        return _standard(message_id, "webhook.test", now, {"repository": str(webhook.repository)})
    line = f"{_code(str(webhook.repository))}: notifications of mergewatch arrive here"
    return _slack(message_id, [line])


def _standard(message_id: str, kind: str, at: datetime, data: dict[str, Any]) -> Message:
    body = {"type": kind, "timestamp": format_timestamp(at), "data": data}
    return Message(message_id, orjson.dumps(body))


def _slack(message_id: str, lines: Sequence[str]) -> Message:
    body = {"text": "\n".join(lines), "unfurl_links": False, "unfurl_media": False}
    return Message(message_id, orjson.dumps(body))


def _url_of(dashboard_url: str, repository: RepositoryName, notification: Notification) -> str:
    """Return the URL of the test's page; its only untrusted text is the name of the repository."""
    owner, name = (quote(each, safe="") for each in (repository.owner, repository.name))
    return f"{dashboard_url}{owner}/{name}/tests/{notification.test_id}"


def _describe(notification: Notification) -> str:
    name = _code(notification.test_name)
    previous, quarantine = notification.previous, notification.quarantine
    was = "" if previous is None else f" (was {previous.value})"
    if notification.type is NotificationType.RECOVERED:
        return f"{name} recovered{was}"
    if notification.type in _HEALTH:
        return f"{name} became {_HEALTH[notification.type]}{was}"
    if quarantine is None:
        raise ValueError("the notification lacks its quarantine")
    branch = "" if quarantine.branch is None else f" on {_code(quarantine.branch)}"
    if notification.type is NotificationType.EXPIRING and quarantine.expires_at is not None:
        until = quarantine.expires_at.strftime("%Y-%m-%d %H:%M UTC")
        return f"the quarantine of {name}{branch} ends at {until}"
    return f"{name} was quarantined{branch}: {_code(quarantine.reason)}"


def _code(text: str) -> str:
    """Return the text as inline code, in which receivers interpret only escaped entities."""
    shown = "".join(each if each.isprintable() else " " for each in _cut(text, MAX_SHOWN_LENGTH))
    return f"`{shown.translate(_SLACK_ESCAPES).replace('@', _NO_MENTION)}`"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
