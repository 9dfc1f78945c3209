"""Reads the pull request of a CI job: a number, or the event file of the code host."""

from __future__ import annotations

import re
from typing import Final

import orjson

from indexing.errors import InvalidValueError
from indexing.identifiers import MAX_INTEGER
from indexing.models.executions import PullRequest
from indexing.names import check_text

_NUMBER: Final = re.compile(r"#?([0-9]{1,19})")


def parse_pull_request(text: str) -> tuple[int | None, PullRequest | None]:
    """Parse a number, or the JSON text of an event, into the pull request's number and details.

    The event is GitHub's payload with a member `pull_request`, or that member by itself. The
    details are `None` unless id, number, title, user id and login are all present. The number is
    also `None` if the event is not about a pull request.

    Raises:
        InvalidValueError: the text is neither, or the number is out of range.
    """
    stripped = text.strip()
    match = _NUMBER.fullmatch(stripped)
    if match is not None:
        return _check_number(int(match[1])), None
    return read_pull_request(parse_event(stripped))


def parse_event(text: str) -> object:
    """Parse the JSON text of an event.

    Raises:
        InvalidValueError: it is no JSON object.
    """
    stripped = text.strip()
    if not stripped.startswith("{"):
        raise InvalidValueError(
            "a pull request is given by its number or by the JSON of the CI's event"
        )
    try:
        event: object = orjson.loads(stripped)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        raise InvalidValueError(f"the CI's event is not valid JSON: {error}") from error
    return event


def read_pull_request(event: object) -> tuple[int | None, PullRequest | None]:
    """Return the pull request of a parsed event, as `parse_pull_request` does.

    Raises:
        InvalidValueError: its number is out of range, or a text cannot be stored.
    """
    pull = member_of(event, "pull_request")
    if pull is None and member_of(event, "user") is not None:
        pull = event
    if pull is None:
        return None, None
    number = _integer(pull, "number")
    if number is None:
        number = _integer(event, "number")
    if number is None:
        return None, None
    _check_number(number)
    pull_id, title = _integer(pull, "id"), _text(pull, "title")
    user = member_of(pull, "user")
    user_id, login = _integer(user, "id"), _text(user, "login")
    if pull_id is None or title is None or user_id is None or not login:
        return number, None
    return number, PullRequest(pull_id, number, title, user_id, login)


def _check_number(number: int) -> int:
    if not 0 < number <= MAX_INTEGER:
        raise InvalidValueError(f"the number of a pull request is 1 to {MAX_INTEGER}")
    return number


def member_of(holder: object, name: str) -> object:
    """Return the member of a JSON object; `None` if it is missing or the holder is no object."""
    return holder.get(name) if isinstance(holder, dict) else None


def _integer(holder: object, name: str) -> int | None:
    value = member_of(holder, name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER:
        return value
    return None


def _text(holder: object, name: str) -> str | None:
    value = member_of(holder, name)
    return check_text(value) if isinstance(value, str) else None
