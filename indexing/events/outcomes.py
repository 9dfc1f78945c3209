"""Declares the outcome of an event: fixed for its type, or read from its metadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from indexing.models.events import Outcome

SUCCESS: Final = Outcome.SUCCESS
FAILURE: Final = Outcome.FAILURE
PENDING: Final = Outcome.PENDING
NEUTRAL: Final = Outcome.NEUTRAL


@dataclass(frozen=True, slots=True)
class By:
    """An outcome that depends on a member of the metadata; dots in its name lead into objects.

    If the value is not among `cases`, the outcome is neutral.
    """

    member: str
    cases: Mapping[str | bool, OutcomeRule]


OutcomeRule = Outcome | By


def decide_outcome(rule: OutcomeRule, metadata: Mapping[str, Any]) -> Outcome:
    """Return the outcome of an event with this metadata."""
    while isinstance(rule, By):
        value: Any = metadata
        for name in rule.member.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        rule = rule.cases.get(value, NEUTRAL) if isinstance(value, str | bool) else NEUTRAL
    return rule


# The outcome for each conclusion of a check.
CONCLUSIONS: Final[Mapping[str | bool, OutcomeRule]] = {
    "success": SUCCESS,
    "failure": FAILURE,
    "error": FAILURE,
    "cancelled": FAILURE,
    "timed_out": FAILURE,
    "action_required": FAILURE,
    "pending": PENDING,
    "neutral": NEUTRAL,
    "skipped": NEUTRAL,
    "stale": NEUTRAL,
}
