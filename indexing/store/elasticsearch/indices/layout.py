"""The indices as data: names, mappings, templates and the layout version. Pure.

Mappings are closed (`dynamic: false`): a field that is not mapped is stored but not searchable.
Times are microseconds since 1970. The routing of a repository's documents is `repository_id`, a
digest, because names have no maximum length and are part of ids and keys here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

# Increase it with every change of a mapping or of a field's meaning. The module `upgrade` describes
# how indices of an earlier version are migrated.
LAYOUT_VERSION: Final = 10

# Increase it with every change of a template, and so with every change of the layout.
TEMPLATES_VERSION: Final = 11

# Of all index templates that match a name, a cluster uses the one with the highest priority.
PRIORITY: Final = 500

# Older servers lack features that this backend uses, or respond differently.
MIN_SERVER_MAJOR: Final = 9

_KEYWORD: Final = {"type": "keyword"}
_LONG: Final = {"type": "long"}
_DOUBLE: Final = {"type": "double"}
# A field for searching only: it has no column to sort by.
_TERMS_ONLY: Final = {"type": "keyword", "doc_values": False}
# A field for sorting only; it is not searchable.
_ORDER_ONLY: Final = {"type": "keyword", "index": False}

# The longest branch that is searchable; a longer one is stored but not indexed. A filter may have
# 255 characters, but Elasticsearch counts UTF-16 code units: an emoji has two.
_BASE_REF: Final = {"type": "keyword", "ignore_above": 2 * 255}

# The index mixes many kinds of documents: the store document, repositories, application keys,
# webhooks and their outboxes, changes of quarantines, CODEOWNERS files, leases and the state of
# pruning. A list filters by `kind` and sorts by other fields.
# `owner_key` and `name_key` are the names of a repository in lower case.
CONTROL_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "owner_key": _KEYWORD,
    "name_key": _KEYWORD,
    "kind": _KEYWORD,
    "key_id": _KEYWORD,
    "created_at": _LONG,
}

TESTS_MAPPING: Final = {"repository_id": _KEYWORD, "test_id": _KEYWORD}

# `key` is repository_id + NUL + test_name: a glob on it scans only the terms of that repository.
# `file_key` is the same with the file of the test. `trigrams` are those of the name.
# `health_status` is a number, by which the search sorts.
IDENTITIES_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "key": _KEYWORD,
    "test_id": _KEYWORD,
    "test_name": _ORDER_ONLY,
    "trigrams": _TERMS_ONLY,
    "pipeline_name": _KEYWORD,
    "job_name": _KEYWORD,
    "executions_count": _LONG,
    "file_key": _KEYWORD,
    "health_status": _LONG,
    "failed_executions_count": _LONG,
    "failure_ratio": _DOUBLE,
    "flakiness_ratio": _DOUBLE,
    "mean_duration": _LONG,
    "last_failure_at": _LONG,
}

# One document for each slot: a test and a branch pattern. `quarantine_id` exists only while a
# record is in force.
QUARANTINES_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "scope": _ORDER_ONLY,
    "test_id": _KEYWORD,
    "quarantine_id": _KEYWORD,
    "source": _KEYWORD,
    "created_at": _LONG,
    "expires_at": _LONG,
    "judged_until": _LONG,
}

# Runs that ever failed as a whole.
RUNS_MAPPING: Final = {"repository_id": _KEYWORD, "run": _KEYWORD, "last_at": _LONG}

# One document for each arrival: all results that describe their run in the same way. It contains
# this description and the number of results.
ARRIVALS_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "run": _KEYWORD,
    "arrival": _ORDER_ONLY,
    "pipeline_name": _KEYWORD,
    "job_name": _KEYWORD,
    "branch": _KEYWORD,
    "commit": _KEYWORD,
    "pull_number": _LONG,
    "first_at": _LONG,
    "finished_at": _LONG,
}

# The counts of an arrival on a UTC day, the sums of days that retention has reached, and the tables
# of past days of the event log. Durations are in microseconds; they are doubles, because the sum of
# many may not fit into 64 bits.
DAYS_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "kind": _KEYWORD,
    "run": _KEYWORD,
    "place": _ORDER_ONLY,
    "pipeline_name": _KEYWORD,
    "job_name": _KEYWORD,
    "branch": _KEYWORD,
    "day": _LONG,
    "passed": _LONG,
    "failed": _LONG,
    "skipped": _LONG,
    "durations": _LONG,
    "total_duration": _DOUBLE,
}

# Changes of health, of a test or of one of its sequences, and days with flaky verdicts.
CHANGES_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "kind": _KEYWORD,
    "test_id": _KEYWORD,
    "place": _ORDER_ONLY,
    "pipeline_name": _KEYWORD,
    "job_name": _KEYWORD,
    "day": _LONG,
    "at": _LONG,
    "previous": _KEYWORD,
    "health": _KEYWORD,
    "verdicts": _LONG,
}

STALE_MAPPING: Final = {"repository_id": _KEYWORD, "mark": _KEYWORD}

EVENTS_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "received_at": _LONG,
    "id": _LONG,
    "type": _KEYWORD,
    "pull_request": _LONG,
    "base_ref": _BASE_REF,
    "trigger": _KEYWORD,
    "outcome": _KEYWORD,
    "arrived_at": _LONG,
    "epoch": _LONG,
}

EXECUTIONS_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "execution_id": _ORDER_ONLY,
    "test_id": _KEYWORD,
    "run": _KEYWORD,
    "arrival": _KEYWORD,
    "pipeline_name": _KEYWORD,
    "job_name": _KEYWORD,
    "branch": _KEYWORD,
    "commit": _KEYWORD,
    "conclusion": _KEYWORD,
    "finished_at": _LONG,
    "failure_id": _KEYWORD,
    "microseconds": _LONG,
    "epoch": _LONG,
}

_FIXED: Final[dict[str, dict[str, Any]]] = {
    "control": CONTROL_MAPPING,
    "tests": TESTS_MAPPING,
    "quarantines": QUARANTINES_MAPPING,
    "runs": RUNS_MAPPING,
    "arrivals": ARRIVALS_MAPPING,
    "days": DAYS_MAPPING,
    "changes": CHANGES_MAPPING,
    "stale": STALE_MAPPING,
}

# Kinds with several indices each: generations and time slices.
_GROWING: Final[dict[str, dict[str, Any]]] = {
    "identities": IDENTITIES_MAPPING,
    "events": EVENTS_MAPPING,
    "executions": EXECUTIONS_MAPPING,
}
_SLICED: Final = frozenset({"events", "executions"})

# Large indices spread over the nodes of a cluster; all others fit into one shard.
_SHARDS: Final = {"events": 2, "executions": 2, "identities": 2, "tests": 2}

# Index sorting by the most common sort order, all fields descending: a search stops when its page
# is full, and finds the start of a deep page by binary search.
_SORTED_BY: Final = {
    "events": ("received_at", "id"),
    "identities": ("executions_count", "test_name", "pipeline_name", "job_name"),
}


def _sorted_by(name: str) -> dict[str, Any]:
    fields = _SORTED_BY.get(name, ())
    if not fields:
        return {}
    return {"index.sort.field": list(fields), "index.sort.order": ["desc"] * len(fields)}


@dataclass(frozen=True, slots=True)
class Layout:
    """The names of all indices of one installation; they begin with its prefix."""

    prefix: str

    @property
    def control(self) -> str:
        """The index of the kinds of documents that `CONTROL_MAPPING` names."""
        return f"{self.prefix}-control"

    @property
    def tests(self) -> str:
        """The index of tests and their derived values, one document for each."""
        return f"{self.prefix}-tests"

    @property
    def quarantines(self) -> str:
        """The index of quarantine slots, one document for each."""
        return f"{self.prefix}-quarantines"

    @property
    def runs(self) -> str:
        """The index of runs that ever failed as a whole, one document for each."""
        return f"{self.prefix}-runs"

    @property
    def arrivals(self) -> str:
        """The index of arrivals: one document for all results that describe their run alike."""
        return f"{self.prefix}-arrivals"

    @property
    def days(self) -> str:
        """The index of counts by day: of arrivals, of past days, and of the event log."""
        return f"{self.prefix}-days"

    @property
    def changes(self) -> str:
        """The index of changes of health, and of days with flaky verdicts."""
        return f"{self.prefix}-changes"

    @property
    def stale(self) -> str:
        """The index of dirty markers."""
        return f"{self.prefix}-stale"

    @property
    def identities(self) -> str:
        """The alias of the identity index generation that readers use."""
        return f"{self.prefix}-identities"

    def identities_of(self, generation: str) -> str:
        """Return the name of one generation of the identity index."""
        return f"{self.prefix}-identities-{generation}"

    def events_of(self, slice_name: str) -> str:
        """Return the name of one slice of events."""
        return f"{self.prefix}-events-{slice_name}"

    def executions_of(self, slice_name: str) -> str:
        """Return the name of one slice of executions."""
        return f"{self.prefix}-executions-{slice_name}"

    @property
    def events(self) -> str:
        """The pattern of all slices of events; it may match none."""
        return self.events_of("*")

    @property
    def executions(self) -> str:
        """The pattern of all slices of executions; it may match none."""
        return self.executions_of("*")

    def is_of_executions(self, index: str) -> bool:
        """Return whether the index is a slice of executions."""
        return index.startswith(self.executions_of(""))

    @property
    def components(self) -> dict[str, dict[str, Any]]:
        """The component templates by name: the defaults, which an operator can override."""
        return {
            f"{self.prefix}-{name}@default": {
                "_meta": {"version": TEMPLATES_VERSION},
                # Replicas are chosen at index creation: `auto_expand_replicas` here would win over
                # an operator's `number_of_replicas`.
                "template": {"settings": {"number_of_shards": _SHARDS.get(name, 1)}},
            }
            for name in _FIXED | _GROWING
        }

    @property
    def templates(self) -> dict[str, dict[str, Any]]:
        """The index templates by name; every index comes from one, including new slices."""
        found = {
            f"{self.prefix}-{name}": self._template(name, mapping, f"{self.prefix}-{name}")
            for name, mapping in _FIXED.items()
        }
        for name, mapping in _GROWING.items():
            body = self._template(name, mapping, f"{self.prefix}-{name}-*")
            if name in _SLICED:
                # One name for all slices, for use outside this project.
                body["template"]["aliases"] = {f"{self.prefix}-{name}": {}}
            found[f"{self.prefix}-{name}"] = body
        return found

    def _template(self, name: str, mapping: dict[str, Any], pattern: str) -> dict[str, Any]:
        # Operators set shards, replicas or tiers in a component template of this name. It overrides
        # the defaults and survives an upgrade.
        own = f"{self.prefix}-{name}@custom"
        return {
            "index_patterns": [pattern],
            "priority": PRIORITY,
            "composed_of": [f"{self.prefix}-{name}@default", own],
            "ignore_missing_component_templates": [own],
            "_meta": {"version": TEMPLATES_VERSION},
            # Forbid auto-creation even if the cluster allows it: a write to an index that was just
            # deleted must not recreate it.
            "allow_auto_create": False,
            "template": {
                "settings": _sorted_by(name),
                "mappings": {"dynamic": False, "properties": mapping},
            },
        }

    @property
    def mappings(self) -> dict[str, dict[str, Any]]:
        """The fields of all existing and future indices, by index name or pattern."""
        growing = {f"{self.prefix}-{name}-*": fields for name, fields in _GROWING.items()}
        return {f"{self.prefix}-{name}": fields for name, fields in _FIXED.items()} | growing

    @property
    def fixed(self) -> tuple[str, ...]:
        """The names of the indices without generations or slices."""
        return tuple(f"{self.prefix}-{name}" for name in _FIXED)
