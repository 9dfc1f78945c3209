"""Patterns of CODEOWNERS files, which are like those of `.gitignore`. Pure.

`*` matches any text without a slash, `?` any character except a slash, `**` any number of
directories, and `[a-z]` one of these characters. A pattern with a slash before its end must match
from the root; others may match at any depth. If a pattern matches a directory, it matches
everything below; with `/*` at its end, it matches only files directly in the directory. Matching
takes at most time proportional to pattern times path, because nothing backtracks. A name longer
than the file systems allow matches no wildcards but a `*` at the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_DIRECTORIES: Final = "**"
_SPECIAL: Final = re.compile(r"[*?\[\\]")
_NEGATIONS: Final = ("!", "^")
_MEMBER: Final = re.compile(r"\\.|.", re.DOTALL)
_ONE_STAR: Final = 2
# The longest name of a file on common systems. No other thread can run while an expression is
# matched, and a long one takes a tenth of a second to match some longer names.
_MAX_NAME_LENGTH: Final = 255


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a pattern between slashes: a text, or a regular expression if it has wildcards.

    `ending` is set if the part is a single `*` and a text after it; then it is that text.
    """

    text: str
    expression: re.Pattern[str] | None = None
    ending: str | None = None

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches."""
        if self.expression is None:
            return self.text == name
        if self.ending is not None:
            return name.endswith(self.ending)
        return len(name) <= _MAX_NAME_LENGTH and self.expression.match(name) is not None


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern: runs of parts, with any number of directories between two runs.

    `below` is the least number of parts of a path that must follow the match. With `is_last`, none
    may follow.
    """

    runs: tuple[tuple[Part, ...], ...]
    below: int
    is_last: bool

    def matches(self, path: Sequence[str]) -> bool:
        """Return whether the path, given as its parts, matches."""
        first, *others = self.runs
        if not _fits(first, path, 0):
            return False
        at = len(first)
        # The leftmost match of a run leaves most room for the rest, so it never has to be undone.
        for place, run in enumerate(others):
            end = len(path) - len(run)
            if self.is_last and place == len(others) - 1:
                # The last run has to end where the path ends.
                return end >= at and _fits(run, path, end)
            while at <= end and not _fits(run, path, at):
                at += 1
            if at > end:
                return False
            at += len(run)
        left = len(path) - at
        return left == 0 if self.is_last else left >= self.below


def compile_pattern(pattern: str) -> PathPattern:
    """Compile one pattern."""
    inner = pattern.strip("/")
    is_whole = "/" in pattern[:-1]
    is_directory = pattern.endswith("/")
    names = inner.split("/")
    is_last = pattern.endswith("/*") and not is_directory
    runs: list[list[Part]] = [[]] if is_whole else [[], []]
    below = int(is_directory)
    for name in names:
        if name == _DIRECTORIES:
            runs.append([])
        else:
            runs[-1].append(_read_part(name))
    if names[-1] == _DIRECTORIES and (is_directory or len(names) > 1):
        # `**` at the end matches everything below the directory, but not the directory itself.
        below += 1
    return PathPattern(tuple(map(tuple, runs)), below, is_last)


def _fits(run: Sequence[Part], path: Sequence[str], at: int) -> bool:
    if len(path) - at < len(run):
        return False
    return all(part.matches(path[at + place]) for place, part in enumerate(run))


def _read_part(name: str) -> Part:
    if _SPECIAL.search(name) is None:
        return Part(name)
    # The expressions between the stars, and the plain texts between them. `texts` is used only if
    # the part consists of text and stars.
    pieces, texts = [""], [""]
    is_text = True
    # If one bracket opens no class, no later one does: there is no bracket that could end it.
    may_open = True
    at = 0
    while at < len(name):
        character = name[at]
        end = None
        if character == "[" and may_open:
            end = _end_of_class(name, at)
            may_open = end is not None
        at += 1
        if character == "*":
            pieces.append("")
            texts.append("")
        elif character == "?":
            is_text = False
            pieces[-1] += "."
        elif end is not None:
            is_text = False
            pieces[-1] += _class_of(name[at:end])
            at = end + 1
        else:
            if character == "\\" and at < len(name):
                character = name[at]
                at += 1
            pieces[-1] += re.escape(character)
            texts[-1] += character
    if is_text and len(texts) == 1:
        return Part(texts[0])
    is_ending = is_text and texts[0] == "" and len(texts) == _ONE_STAR
    return Part(name, _expression_of(pieces), texts[-1] if is_ending else None)


def _expression_of(pieces: Sequence[str]) -> re.Pattern[str]:
    first, *others = pieces
    if not others:
        return re.compile(rf"{first}\Z", re.DOTALL)
    *middle, last = others
    # An atomic group keeps the leftmost match, so the expression never backtracks into it.
    found = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(rf"{first}{found}.*{last}\Z", re.DOTALL)


def _end_of_class(name: str, start: int) -> int | None:
    """Return the index of the bracket that ends the class; None if there is no such bracket."""
    at = start + 2 if name[start + 1 : start + 2] in _NEGATIONS else start + 1
    first = at
    while at < len(name):
        if name[at] == "]" and at > first:
            return at
        at += 2 if name[at] == "\\" else 1
    return None


def _class_of(members: str) -> str:
    """Return the regular expression of a class with these members."""
    negation = ""
    if members[0] in _NEGATIONS:
        negation, members = "^", members[1:]
    plain = [(each[-1], len(each) > 1) for each in _MEMBER.findall(members)]
    written = ""
    at = 0
    while at < len(plain):
        low = plain[at][0]
        if at + 2 < len(plain) and plain[at + 1] == ("-", False):
            high = plain[at + 2][0]
            written += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
            at += 3
        else:
            written += re.escape(low)
            at += 1
    # A class of empty ranges only matches nothing; its negation matches any character.
    return f"[{negation}{written}]" if written else ("." if negation else r"(?!)")
