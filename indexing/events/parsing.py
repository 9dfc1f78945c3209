"""Parses one line of untrusted NDJSON into a storable event, or into a list of its errors.

Pure: no I/O here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

from marshmallow import ValidationError

from indexing.errors import InvalidValueError
from indexing.events.catalogue import CATALOGUE
from indexing.events.envelope import Envelope
from indexing.events.fields import Errors, current_errors
from indexing.events.json_text import (
    MemberPath,
    decode,
    encode,
    find_bad_text,
    show,
)
from indexing.events.outcomes import decide_outcome
from indexing.events.schema import OpenSchema
from indexing.identifiers import derive_event_id
from indexing.models.events import EventKey, Outcome, StoredEvent
from indexing.names import RepositoryName, parse_repository
from indexing.timestamps import parse_timestamp

# The most reasons that a refused event gets. A hostile event can have thousands of errors, and
# validation stops at this number.
MAX_REASONS: Final = 10

# The most values in one event. Validation takes about ten microseconds for each. An event with
# 1,500 unsuccessful checks has 12,000 values; ordinary events have fewer than a hundred.
MAX_VALUES: Final = 20_000

# Building a schema costs a hundred times as much as using it.
_SCHEMAS: Final[Mapping[str, OpenSchema]] = {
    name: cast(OpenSchema, declared.envelope()) for name, declared in CATALOGUE.items()
}
_ANY_TYPE: Final = Envelope()


class RefusedEventError(InvalidValueError):
    """An event that cannot be stored; each of `reasons` names a member and its error."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class ParsedEvent:
    """A valid event; the spelling of its repository may still differ from the stored one.

    `body` is the normalised event as JSON text: declared members in their order, then unknown ones;
    times in UTC; always with an `id`.
    """

    repository: RepositoryName
    key: EventKey
    type: str
    pull_request: int | None
    base_ref: str | None
    trigger: str
    outcome: Outcome
    body: bytes

    def finish(self, repository: RepositoryName) -> StoredEvent:
        """Return the event as it is stored and served, with that spelling of the repository."""
        body = self.body
        if repository != self.repository:
            body = body.replace(_spelled(self.repository), _spelled(repository), 1)
        return StoredEvent(
            repository=repository,
            key=self.key,
            type=self.type,
            pull_request=self.pull_request,
            base_ref=self.base_ref,
            trigger=self.trigger,
            outcome=self.outcome,
            body=body,
        )


def _spelled(repository: RepositoryName) -> bytes:
    """Return the member `repository` as JSON text.

    The first occurrence of this text in an event is that member: quotes within strings are escaped,
    and the members before it contain no objects.
    """
    return f'"repository":"{repository}"'.encode()


def parse_event(line: bytes) -> ParsedEvent:
    """Parse and validate one event, a JSON object in UTF-8.

    If it has no `id`, one is derived from the rest of its content.

    Raises:
        RefusedEventError: the event is not valid; its reasons list the first errors.
    """
    try:
        value = decode(line, MAX_VALUES)
    except InvalidValueError as error:
        raise RefusedEventError((f"the line {error}",)) from error
    if not isinstance(value, dict):
        raise RefusedEventError(("the line is not a JSON object",))
    errors = list(islice(find_bad_text(value, line), MAX_REASONS + 1))
    envelope = None
    try:
        envelope = _load(value)
    except ValidationError:
        errors.extend(islice(_find_errors(value), MAX_REASONS + 1))
    if errors or envelope is None:
        raise RefusedEventError(_write(errors))
    repository = parse_repository(envelope["repository"])
    if "id" not in value:
        envelope["id"] = _derive_id(envelope, repository)
    return ParsedEvent(
        repository=repository,
        key=EventKey(parse_timestamp(envelope["received_at"]), envelope["id"]),
        type=envelope["type"],
        pull_request=envelope["pull_request"],
        base_ref=envelope["base_ref"],
        trigger=envelope["trigger"],
        outcome=decide_outcome(CATALOGUE[envelope["type"]].outcome, envelope["metadata"]),
        body=encode(envelope),
    )


def _load(value: dict[str, Any]) -> dict[str, Any]:
    """Return the event in its stored form; raise `ValidationError` without a path."""
    name = value.get("type")
    schema = _SCHEMAS.get(name) if isinstance(name, str) else None
    if schema is None:
        raise ValidationError("is of no known type")
    return schema.read(_with_id(value))


def _find_errors(value: dict[str, Any]) -> Iterator[tuple[MemberPath, str]]:
    """Yield each error of an event that is not valid, and its path."""
    current_errors.set(Errors(MAX_REASONS + 1))
    name = value.get("type")
    schema = _SCHEMAS.get(name, _ANY_TYPE) if isinstance(name, str) else _ANY_TYPE
    messages = dict(schema.validate(_with_id(value)))
    if isinstance(name, str) and schema is _ANY_TYPE:
        messages["type"] = [f"{show(name)} is none of the {len(CATALOGUE)} event types"]
    yield from _flatten(messages, ())


def _with_id(value: dict[str, Any]) -> dict[str, Any]:
    # The schema requires an id; the real one is derived from the validated event later.
    return value if "id" in value else {"id": 0, **value}


def _derive_id(envelope: Mapping[str, Any], repository: RepositoryName) -> int:
    content = {name: member for name, member in envelope.items() if name != "id"}
    content["repository"] = repository.key
    return derive_event_id(encode(content, sort_keys=True))


def _flatten(messages: Any, path: MemberPath) -> Iterator[tuple[MemberPath, str]]:
    """Yield the error messages of marshmallow one by one; they are nested like the event."""
    if isinstance(messages, dict):
        for name, inner in messages.items():
            # marshmallow uses this name for errors of an object as a whole.
            yield from _flatten(inner, path if name == "_schema" else (*path, name))
    elif isinstance(messages, list):
        for message in messages:
            yield path, message


def _write(errors: list[tuple[MemberPath, str]]) -> tuple[str, ...]:
    reasons = tuple(f"{_dotted(path)}: {reason}" for path, reason in errors[:MAX_REASONS])
    return (*reasons, "and more") if len(errors) > len(reasons) else reasons


def _dotted(path: MemberPath) -> str:
    """Format a path as `metadata.checks.0.name`; cut and escape it, because names are untrusted."""
    return ascii(".".join(str(step)[:80] for step in path))[1:-1]
