"""Writes the event for a change of the settings of automatic quarantine."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from indexing.events.json_text import encode
from indexing.identifiers import derive_application_id
from indexing.models.events import StoredEvent
from indexing.models.repositories import Repository
from indexing.timestamps import format_timestamp

_APPLICATION: Final = "mergewatch"
_ACTOR: Final = {
    "type": "application",
    "id": str(derive_application_id(_APPLICATION)),
    "name": _APPLICATION,
}
# Only the command line changes the settings of a repository.
_TRIGGER: Final = "CLI"
_FAMILY: Final = "ci_insights.auto_quarantine"
_ATTRIBUTES: Final = "auto_quarantine_config_attributes"


def describe_change(before: Repository, after: Repository, now: datetime) -> StoredEvent | None:
    """Return the event for this change; `None` if the change needs no event.

    A configuration counts only while automatic quarantine is on. A change while it is off, or in
    the call that turns it off, appears in the next `enabled` event.
    """
    moment = format_timestamp(now)
    metadata: dict[str, Any]
    if after.auto_quarantine and not before.auto_quarantine:
        step = "enabled"
        metadata = {
            "enabled_by": _ACTOR,
            "enabled_at": moment,
            _ATTRIBUTES: _configuration_of(after),
        }
    elif before.auto_quarantine and not after.auto_quarantine:
        step = "disabled"
        metadata = {
            "disabled_by": _ACTOR,
            "disabled_at": moment,
            _ATTRIBUTES: _configuration_of(before),
        }
    elif after.auto_quarantine and _configuration_of(before) != _configuration_of(after):
        step = "modified"
        metadata = {
            "updated_by": _ACTOR,
            "updated_at": moment,
            f"{_ATTRIBUTES}_before": _configuration_of(before),
            f"{_ATTRIBUTES}_after": _configuration_of(after),
        }
    else:
        return None
    event = {
        "received_at": moment,
        "trigger": _TRIGGER,
        "repository": str(after.name),
        "pull_request": None,
        "base_ref": None,
        "type": f"{_FAMILY}.{step}",
        "metadata": metadata,
    }
    # It builds the schemas of all events, and both stores load this module for any process.
    from indexing.events.parsing import parse_event

    # Validated by the catalogue like any producer's event, so it cannot be invalid.
    return parse_event(encode(event)).finish(after.name)


def _configuration_of(repository: Repository) -> dict[str, bool]:
    return {"ignore_broken_on_default_branch": repository.ignore_broken_on_default_branch}
