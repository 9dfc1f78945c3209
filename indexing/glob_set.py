"""Matches names against many globs, much faster than one glob after the other. Pure.

The result is that of `indexing.globs.matches`, which makes the final decision for globs with a `*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from indexing.globs import is_literal, literal_prefix, literal_runs, literal_suffix

_RUN: Final = re.compile(r"[^?]+")

# The start and end of each literal run of a glob.
_Spans = tuple[tuple[int, int], ...]


class GlobSet:
    """A set of globs to match many names against."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._literals = {pattern for pattern in patterns if is_literal(pattern)}
        # The globs without a `*`, by length, then by the spans of their literal runs. Each entry
        # has a function that cuts these spans out of a name, and the texts that match there.
        self._fixed: dict[int, dict[_Spans, tuple[itemgetter[Any], set[Any]]]] = {}
        self._starred = []
        for pattern in patterns:
            if "*" in pattern:
                self._starred.append(_Starred(pattern))
            elif pattern not in self._literals:
                spans = tuple(run.span() for run in _RUN.finditer(pattern)) or ((0, 0),)
                groups = self._fixed.setdefault(len(pattern), {})
                cut = itemgetter(*(slice(*span) for span in spans))
                groups.setdefault(spans, (cut, set()))[1].add(cut(pattern))

    def matches_fixed(self, name: str) -> bool:
        """Return whether the name matches any of the globs without a `*`."""
        if name in self._literals:
            return True
        groups = self._fixed.get(len(name))
        return groups is not None and any(cut(name) in texts for cut, texts in groups.values())

    def find_possible(self, name: str) -> Iterator[str]:
        """Yield the globs with a `*` that the name may match, for `globs.matches` to decide."""
        length = len(name)
        for glob in self._starred:
            if (
                length >= glob.shortest
                and name.startswith(glob.prefix)
                and name.endswith(glob.suffix)
                and glob.run in name
            ):
                yield glob.pattern


class _Starred:
    """A glob with a `*`, and the properties of every matching name."""

    __slots__ = ("pattern", "prefix", "run", "shortest", "suffix")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.prefix = literal_prefix(pattern)
        self.suffix = literal_suffix(pattern)
        self.run = max(literal_runs(pattern), key=len, default="")
        self.shortest = len(pattern) - pattern.count("*")
