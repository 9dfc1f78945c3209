"""Finds the owners of files by a CODEOWNERS file. Pure, except that it looks at the clock.

A CODEOWNERS file may have thousands of rules, and a repository a hundred thousand files. So most
rules are looked up by a text that every matching path contains; only the others are tried for each
path.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from indexing.owners.patterns import PathPattern, compile_pattern
from indexing.owners.rules import MAX_OWNERS, MAX_PATTERN_LENGTH, MAX_RULES, read_rules

# The most paths whose owners are cached, and their characters. All files of a large repository fit:
# if they did not, a request for all of them would find none of them cached.
_MAX_KEPT: Final = 100_000
_MAX_KEPT_CHARACTERS: Final = 10_000_000

_NOBODY: Final = (None,)

# A pattern with the number of its rule in the file.
_Numbered = tuple[int, PathPattern]


class Owners:
    """The rules of one CODEOWNERS file, with a cache of the owners of paths.

    Threads may share it.
    """

    def __init__(self, patterns: Sequence[PathPattern], owners: Sequence[tuple[str, ...]]) -> None:
        """Take the patterns of the rules, in the order of the file, and the owners of each."""
        self._owners = owners
        # All owners that the rules name.
        self.names = frozenset(name for each in owners for name in each)
        self._by_directory: defaultdict[str, list[_Numbered]] = defaultdict(list)
        self._by_name: defaultdict[str, list[_Numbered]] = defaultdict(list)
        # The rules by the length of their ending, then by the ending itself.
        self._by_ending: defaultdict[int, defaultdict[str, list[_Numbered]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._others: list[_Numbered] = []
        self._kept: dict[str, Sequence[str | None]] = {}
        self._kept_characters = 0
        frequent = Counter(name for pattern in patterns for name in _names_of(pattern))
        for number, pattern in enumerate(patterns):
            self._place_of(pattern, frequent).append((number, pattern))

    def find(self, filepath: str | None, check: Callable[[], object]) -> Sequence[str | None]:
        """Return the owners of a file; a single None if it has none.

        `check` is called before each pattern is tried, so it can raise an error to stop the search.
        """
        if filepath is None:
            return _NOBODY
        found = self._kept.get(filepath)
        if found is None:
            found = self._find(filepath, check) or _NOBODY
            if len(self._kept) >= _MAX_KEPT or self._kept_characters >= _MAX_KEPT_CHARACTERS:
                self._kept.clear()
                self._kept_characters = 0
            self._kept[filepath] = found
            self._kept_characters += len(filepath)
        return found

    def _find(self, filepath: str, check: Callable[[], object]) -> tuple[str, ...]:
        # Reports from Windows have backslashes.
        path = filepath.replace("\\", "/").removeprefix("./").split("/")
        best = -1
        for rules in self._candidates(path):
            for number, pattern in reversed(rules):
                check()
                if number < best:
                    break
                if pattern.matches(path):
                    best = number
                    break
        return self._owners[best] if best >= 0 else ()

    def _candidates(self, path: Sequence[str]) -> Iterator[Sequence[_Numbered]]:
        """Yield lists of rules, each in the order of the file."""
        directory = ""
        for name in path:
            directory = f"{directory}/{name}"
            yield self._by_directory.get(directory, ())
        for name in dict.fromkeys(path):
            yield self._by_name.get(name, ())
            for length, endings in self._by_ending.items():
                # A length of 0 is fine: every name ends in the empty text.
                yield endings.get(name[len(name) - length :], ()) if len(name) >= length else ()
        yield self._others

    def _place_of(self, pattern: PathPattern, frequent: Mapping[str, int]) -> list[_Numbered]:
        """Return the list for a rule: if possible, one that few other rules share."""
        names = _names_of(pattern)
        parts = [part for run in pattern.runs for part in run]
        if len(pattern.runs) == 1 and len(names) == len(parts):
            return self._by_directory["".join(f"/{name}" for name in names)]
        if names:
            return self._by_name[min(names, key=frequent.__getitem__)]
        for part in parts:
            if part.ending is not None:
                return self._by_ending[len(part.ending)][part.ending]
        return self._others


class OwnersReader:
    """Reads a CODEOWNERS file in steps, because a large one takes several seconds."""

    def __init__(self, text: str) -> None:
        self._rules = islice(read_rules(text), MAX_RULES)
        self._patterns: list[PathPattern] = []
        self._owners: list[tuple[str, ...]] = []
        self._read: Owners | None = None

    def read(self, seconds: float) -> Owners | None:
        """Read on for about that many seconds; return the owners once the whole file is read.

        Only one thread at a time may call this.
        """
        until = time.monotonic() + seconds
        for rule in self._rules:
            if len(rule.pattern) <= MAX_PATTERN_LENGTH:
                self._patterns.append(compile_pattern(rule.pattern))
                self._owners.append(rule.owners[:MAX_OWNERS])
            if time.monotonic() > until:
                return None
        if self._read is None:
            self._read = Owners(self._patterns, self._owners)
        return self._read


def _names_of(pattern: PathPattern) -> list[str]:
    """Return the names that are parts of every matching path."""
    return [part.text for run in pattern.runs for part in run if part.expression is None]
