"""Finds the owners of files by a CODEOWNERS file. Pure, except that it looks at the clock.

A CODEOWNERS file may have thousands of rules, and a repository a hundred thousand files. So most
rules are looked up by a text that every matching path contains; only the others are tried for each
path.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from indexing.owners.patterns import PathPattern, compile_pattern
from indexing.owners.rules import MAX_OWNERS, MAX_PATTERN_LENGTH, MAX_RULES, Rule, read_rules

# The most paths whose owners are cached, and about how many bytes these take. All files of a large
# repository fit: if they did not, a request for all of them would find none of them cached.
_MAX_KEPT: Final = 100_000
_MAX_KEPT_BYTES: Final = 20_000_000
_BYTES_OF_OWNER: Final = 8

_NOBODY: Final = (None,)

# Patterns with their ranks: of the rules of a section that match, the one of the highest rank
# decides.
_Ranked = list[tuple[int, PathPattern]]
_BySection = defaultdict[int, _Ranked]
_NO_RULES: Final[Mapping[int, _Ranked]] = {}


class Owners:
    """The rules of one CODEOWNERS file, with a cache of the owners of paths.

    Threads may share it.
    """

    def __init__(self, rules: Sequence[tuple[PathPattern, Rule]]) -> None:
        """Take the rules in the order of the file, each with its compiled pattern."""
        # An exclusion holds against the rules below it too, so it ranks above all of them.
        ranked = sorted(rules, key=lambda each: each[1].is_exclusion)
        self._owners = [rule.owners for _, rule in ranked]
        # All owners that the rules name.
        self.names = frozenset(chain.from_iterable(self._owners))
        self._by_directory: defaultdict[str, _BySection] = defaultdict(_no_rules_yet)
        self._by_name: defaultdict[str, _BySection] = defaultdict(_no_rules_yet)
        # The rules by the length of their ending, then by the ending itself.
        self._by_ending: defaultdict[int, defaultdict[str, _BySection]] = defaultdict(
            lambda: defaultdict(_no_rules_yet)
        )
        self._others = _no_rules_yet()
        self._kept: dict[str, Sequence[str | None]] = {}
        self._kept_bytes = 0
        # The owners of files of several sections; files with the same owners share them.
        self._unions: dict[tuple[str, ...], tuple[str, ...]] = {}
        frequent = Counter(name for pattern, _ in ranked for name in _names_of(pattern))
        for rank, (pattern, rule) in enumerate(ranked):
            self._place_of(pattern, frequent)[rule.section].append((rank, pattern))

    def find(self, filepath: str | None, check: Callable[[], object]) -> Sequence[str | None]:
        """Return the owners of a file; a single None if it has none.

        `check` is called before each pattern is tried, so it can raise an error to stop the search.
        """
        if filepath is None:
            return _NOBODY
        found = self._kept.get(filepath)
        if found is None:
            found = self._find(filepath, check) or _NOBODY
            if len(self._kept) >= _MAX_KEPT or self._kept_bytes >= _MAX_KEPT_BYTES:
                self._kept.clear()
                self._unions.clear()
                self._kept_bytes = 0
            self._kept[filepath] = found
            self._kept_bytes += len(filepath)
        return found

    def _find(self, filepath: str, check: Callable[[], object]) -> tuple[str, ...]:
        # Reports from Windows have backslashes.
        path = filepath.replace("\\", "/").removeprefix("./").split("/")
        best: dict[int, int] = {}
        for rules in self._candidates(path):
            for section, ranked in rules.items():
                for rank, pattern in reversed(ranked):
                    check()
                    if rank <= best.get(section, -1):
                        break
                    if pattern.matches(path):
                        best[section] = rank
                        break
        found = [self._owners[best[section]] for section in sorted(best)]
        if len(found) == 1:
            return found[0]
        # Each section decides for itself: a file has the owners of all of them.
        union = tuple(islice(dict.fromkeys(chain.from_iterable(found)), MAX_OWNERS))
        known = self._unions.setdefault(union, union)
        if known is union:
            self._kept_bytes += len(union) * _BYTES_OF_OWNER
        return known

    def _candidates(self, path: Sequence[str]) -> Iterator[Mapping[int, _Ranked]]:
        """Yield rules by section; those of a section are in the order of their ranks."""
        directory = ""
        for name in path:
            directory = f"{directory}/{name}"
            yield self._by_directory.get(directory, _NO_RULES)
        for name in dict.fromkeys(path):
            yield self._by_name.get(name, _NO_RULES)
            for length, endings in self._by_ending.items():
                if len(name) >= length:
                    yield endings.get(name[len(name) - length :], _NO_RULES)
        yield self._others

    def _place_of(self, pattern: PathPattern, frequent: Mapping[str, int]) -> _BySection:
        """Return the place for a rule: if possible, one that few other rules share."""
        names = _names_of(pattern)
        parts = [part for run in pattern.runs for part in run]
        if len(pattern.runs) == 1 and len(names) == len(parts):
            return self._by_directory["".join(f"/{name}" for name in names)]
        if names:
            return self._by_name[min(names, key=frequent.__getitem__)]
        for part in parts:
            # Every name ends in the empty text.
            if part.ending:
                return self._by_ending[len(part.ending)][part.ending]
        return self._others


class OwnersReader:
    """Reads a CODEOWNERS file in steps, because a large one takes several seconds."""

    def __init__(self, text: str) -> None:
        self._rules = islice(read_rules(text), MAX_RULES)
        self._compiled: list[tuple[PathPattern, Rule]] = []
        self._read: Owners | None = None

    def read(self, seconds: float) -> Owners | None:
        """Read on for about that many seconds; return the owners once the whole file is read.

        Only one thread at a time may call this.
        """
        until = time.monotonic() + seconds
        for rule in self._rules:
            if len(rule.pattern) <= MAX_PATTERN_LENGTH:
                owned = rule._replace(owners=rule.owners[:MAX_OWNERS])
                self._compiled.append((compile_pattern(rule.pattern), owned))
            if time.monotonic() > until:
                return None
        if self._read is None:
            self._read = Owners(self._compiled)
        return self._read


def _no_rules_yet() -> _BySection:
    return defaultdict(list)


def _names_of(pattern: PathPattern) -> list[str]:
    """Return the names that are parts of every matching path."""
    return [part.text for run in pattern.runs for part in run if part.expression is None]
