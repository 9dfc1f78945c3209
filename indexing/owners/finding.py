"""Finds the owners of files by a CODEOWNERS file. Pure.

A file may have thousands of rules, and a repository a hundred thousand files: rules are looked up
by a text that every path which they match contains, and only the rest is tried for each path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from indexing.owners.patterns import PathPattern, compile_pattern
from indexing.owners.rules import MAX_OWNERS, MAX_PATTERN_LENGTH, MAX_RULES, read_rules

# Paths whose owners are kept.
_MAX_KEPT: Final = 50_000

_NOBODY: Final = (None,)

# A pattern with its place in the file.
_Numbered = tuple[int, PathPattern]


class Owners:
    """The rules of one file, and the owners of the paths that were asked for last.

    Threads may share it.
    """

    def __init__(self, text: str) -> None:
        """Read the file, which takes up to some seconds."""
        self._owners: list[tuple[str, ...]] = []
        self._by_directory: defaultdict[str, list[_Numbered]] = defaultdict(list)
        self._by_name: defaultdict[str, list[_Numbered]] = defaultdict(list)
        # By length, then by the ending.
        self._by_ending: defaultdict[int, defaultdict[str, list[_Numbered]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._others: list[_Numbered] = []
        self._kept: dict[str, Sequence[str | None]] = {}
        for rule in read_rules(text)[:MAX_RULES]:
            if len(rule.pattern) <= MAX_PATTERN_LENGTH:
                numbered = (len(self._owners), compile_pattern(rule.pattern))
                self._owners.append(rule.owners[:MAX_OWNERS])
                self._place_of(numbered[1]).append(numbered)

    def find(self, filepath: str | None, check: Callable[[], object]) -> Sequence[str | None]:
        """Return the owners of a file, None if it has none; `check` is called again and again."""
        if filepath is None:
            return _NOBODY
        found = self._kept.get(filepath)
        if found is None:
            found = self._find(filepath, check) or _NOBODY
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[filepath] = found
        return found

    def _find(self, filepath: str, check: Callable[[], object]) -> tuple[str, ...]:
        # Reports of Windows have backslashes.
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
                # All names end in a text of no length.
                yield endings.get(name[len(name) - length :], ()) if len(name) >= length else ()
        yield self._others

    def _place_of(self, pattern: PathPattern) -> list[_Numbered]:
        """Return the list that a rule belongs into."""
        directory = ""
        for part in pattern.runs[0]:
            if part.expression is not None:
                break
            directory = f"{directory}/{part.text}"
        if directory:
            return self._by_directory[directory]
        parts = [part for run in pattern.runs for part in run]
        for part in parts:
            if part.expression is None:
                return self._by_name[part.text]
        for part in parts:
            if part.ending is not None:
                return self._by_ending[len(part.ending)][part.ending]
        return self._others
