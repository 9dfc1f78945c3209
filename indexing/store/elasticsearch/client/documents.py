"""Documents as they are stored, and their versions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

# A result of a search.
Hit = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a document that was read: its sequence number and primary term."""

    seq_no: int
    primary_term: int

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Return the version in the answer to a read or write, or in a hit that has it."""
        return cls(answer["_seq_no"], answer["_primary_term"])

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that make a write fail if the document has changed since."""
        return {"if_seq_no": self.seq_no, "if_primary_term": self.primary_term}


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document; `version` is for optimistic concurrency control."""

    id: str
    source: Mapping[str, Any]
    version: Version

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Return the document in the answer to a read, or in a hit that has its version."""
        return cls(answer["_id"], answer["_source"], Version.of(answer))

    def holds(self, source: Mapping[str, Any]) -> bool:
        """Whether this is what is stored after a write of `source`."""
        return bool(self.source == orjson.loads(orjson.dumps(source)))
