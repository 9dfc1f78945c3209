"""The indices, as data: their names, their mappings, and the version that both have. Pure.

Mappings are closed (`dynamic: false`): what is not named in one is kept in the document and cannot
be searched by. Times are microseconds since 1970. Every document of a repository is routed by
`repository_id`, a digest: names have no greatest length, and are part of ids and of keys here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

# Raised with every change of a mapping or of what a field means; `upgrade` says what has to be done
# to indices of an earlier version.
LAYOUT_VERSION: Final = 1

# Raised with every change of a template, so with every change of the layout as well.
TEMPLATES_VERSION: Final = 2

# Older servers lack what the requests here ask for, or answer them otherwise.
MIN_SERVER_MAJOR: Final = 9

_KEYWORD: Final = {"type": "keyword"}
_LONG: Final = {"type": "long"}
# Kept to sort by, never to be looked up by.
_ORDER_ONLY: Final = {"type": "keyword", "index": False}

# The longest branch that can be asked for; a longer one is kept and not found.
_BASE_REF: Final = {"type": "keyword", "ignore_above": 255}

# What a listing sorts by is kept in every document of the index; what recognises one is `kind`.
CONTROL_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "kind": _KEYWORD,
    "key_id": _KEYWORD,
    "created_at": _LONG,
}

TESTS_MAPPING: Final = {"repository_id": _KEYWORD, "test_id": _KEYWORD}

# `key` is repository_id + NUL + test_name: a glob over it walks the terms of that repository alone.
IDENTITIES_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "key": _KEYWORD,
    "test_id": _KEYWORD,
    "test_name": _ORDER_ONLY,
    "pipeline_name": _KEYWORD,
    "job_name": _KEYWORD,
    "executions_count": _LONG,
}

# One document a slot: a test and a branch pattern. `quarantine_id` is there while a record is in
# force.
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

STALE_MAPPING: Final = {"repository_id": _KEYWORD, "mark": _KEYWORD}

EVENTS_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "received_at": _LONG,
    "id": _LONG,
    "type": _KEYWORD,
    "pull_request": _LONG,
    "base_ref": _BASE_REF,
    "epoch": _LONG,
}

EXECUTIONS_MAPPING: Final = {
    "repository_id": _KEYWORD,
    "execution_id": _ORDER_ONLY,
    "test_id": _KEYWORD,
    "run": _KEYWORD,
    "pipeline_name": _KEYWORD,
    "job_name": _KEYWORD,
    "branch": _KEYWORD,
    "conclusion": _KEYWORD,
    "finished_at": _LONG,
    "epoch": _LONG,
}

_FIXED: Final[dict[str, dict[str, Any]]] = {
    "control": CONTROL_MAPPING,
    "tests": TESTS_MAPPING,
    "quarantines": QUARANTINES_MAPPING,
    "runs": RUNS_MAPPING,
    "stale": STALE_MAPPING,
}

# Those that more indices are added to: generations, and slices of time.
_GROWING: Final[dict[str, dict[str, Any]]] = {
    "identities": IDENTITIES_MAPPING,
    "events": EVENTS_MAPPING,
    "executions": EXECUTIONS_MAPPING,
}
_SLICED: Final = frozenset({"events", "executions"})

# What spreads over the nodes of a cluster and what is small enough for one shard.
_SHARDS: Final = {"events": 2, "executions": 2, "identities": 2, "tests": 2}


# Documents lie in the order that they are mostly asked for, all of it downwards: a page ends where
# it is full, and one that lies deep is found by halving.
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
    """The names of all indices of one installation, which begin with its prefix."""

    prefix: str

    @property
    def control(self) -> str:
        """The store itself, its repositories and its keys."""
        return f"{self.prefix}-control"

    @property
    def tests(self) -> str:
        """One document a test, with what is derived of it."""
        return f"{self.prefix}-tests"

    @property
    def quarantines(self) -> str:
        """One document a slot."""
        return f"{self.prefix}-quarantines"

    @property
    def runs(self) -> str:
        """One document for each run that ever failed as a whole."""
        return f"{self.prefix}-runs"

    @property
    def stale(self) -> str:
        """Which tests wait to be worked out anew."""
        return f"{self.prefix}-stale"

    @property
    def identities(self) -> str:
        """The alias over the generation of the identity index that is read."""
        return f"{self.prefix}-identities"

    def identities_of(self, generation: str) -> str:
        """One generation of the identity index."""
        return f"{self.prefix}-identities-{generation}"

    def events_of(self, slice_name: str) -> str:
        """One slice of the events."""
        return f"{self.prefix}-events-{slice_name}"

    def executions_of(self, slice_name: str) -> str:
        """One slice of the executions."""
        return f"{self.prefix}-executions-{slice_name}"

    @property
    def events(self) -> str:
        """All slices of events, as a pattern: there may be none."""
        return self.events_of("*")

    @property
    def executions(self) -> str:
        """All slices of executions, as a pattern: there may be none."""
        return self.executions_of("*")

    @property
    def components(self) -> dict[str, dict[str, Any]]:
        """The component templates by name: what this project sets and others may lay over."""
        return {
            f"{self.prefix}-{name}@default": {
                "_meta": {"version": TEMPLATES_VERSION},
                # Replicas are settled when an index is made: `auto_expand_replicas` here would
                # stand above a `number_of_replicas` that is laid over it.
                "template": {"settings": {"number_of_shards": _SHARDS.get(name, 1)}},
            }
            for name in _FIXED | _GROWING
        }

    @property
    def templates(self) -> dict[str, dict[str, Any]]:
        """The index templates by name: what every index is made of, each new slice too."""
        found = {
            f"{self.prefix}-{name}": self._template(name, mapping, f"{self.prefix}-{name}")
            for name, mapping in _FIXED.items()
        }
        for name, mapping in _GROWING.items():
            body = self._template(name, mapping, f"{self.prefix}-{name}-*")
            if name in _SLICED:
                # For whoever looks in from outside: one name for all slices.
                body["template"]["aliases"] = {f"{self.prefix}-{name}": {}}
            found[f"{self.prefix}-{name}"] = body
        return found

    def _template(self, name: str, mapping: dict[str, Any], pattern: str) -> dict[str, Any]:
        # Whoever runs the cluster sets shards, replicas or tiers in a component template of this
        # name, which is laid over the defaults and survives an upgrade.
        own = f"{self.prefix}-{name}@custom"
        return {
            "index_patterns": [pattern],
            "priority": 500,
            "composed_of": [f"{self.prefix}-{name}@default", own],
            "ignore_missing_component_templates": [own],
            "_meta": {"version": TEMPLATES_VERSION},
            # An index is created on purpose or not at all, whatever the cluster allows: a write
            # to one that was just deleted must not bring it back.
            "allow_auto_create": False,
            "template": {
                "settings": _sorted_by(name),
                "mappings": {"dynamic": False, "properties": mapping},
            },
        }

    @property
    def mappings(self) -> dict[str, dict[str, Any]]:
        """The fields of every index there is or may be, by a name or pattern of indices."""
        growing = {f"{self.prefix}-{name}-*": fields for name, fields in _GROWING.items()}
        return {f"{self.prefix}-{name}": fields for name, fields in _FIXED.items()} | growing

    @property
    def fixed(self) -> tuple[str, ...]:
        """The indices that exist from the beginning under their own names."""
        return tuple(f"{self.prefix}-{name}" for name in _FIXED)
