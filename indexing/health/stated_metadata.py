"""Collects the metadata that the executions of a sequence state. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from indexing.health.rollups import Stated
from indexing.models.tests import METADATA_FIELDS, TestMetadata, metadata_values


class StatedMetadata:
    """The newest value of each field, after those `before` and what was noted since."""

    def __init__(self, before: Sequence[Stated] | None) -> None:
        self._before = before or (None,) * len(METADATA_FIELDS)
        # With the newest time at which each was stated.
        self._stated: dict[TestMetadata, int] = {}
        self._last: TestMetadata | None = None
        self._last_at = 0

    def note(self, at: int, metadata: TestMetadata) -> None:
        """Note the metadata of an execution."""
        # Stores share equal metadata; to compare all fields takes longer.
        if metadata is not self._last:
            self._keep_last()
            self._last, self._last_at = metadata, at
        elif at > self._last_at:
            self._last_at = at

    def _keep_last(self) -> None:
        if self._last is not None:
            before = self._stated.get(self._last, self._last_at)
            self._stated[self._last] = max(before, self._last_at)

    def newest(self) -> tuple[Stated, ...]:
        """Return the newest value of each field; of two at the same time, the greater one."""
        self._keep_last()
        newest = list(self._before)
        for metadata, at in self._stated.items():
            for index, value in enumerate(metadata_values(metadata)):
                if value is not None:
                    before = newest[index]
                    if before is None or (at, value) > before:
                        newest[index] = (at, value)
        return tuple(newest)
