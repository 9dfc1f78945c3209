"""Reads a CODEOWNERS file of GitHub or GitLab into rules. Pure.

https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners#codeowners-syntax
https://docs.gitlab.com/user/project/codeowners/reference/

Lines that are not valid rules are ignored, as GitHub and GitLab do, and so are words that are no
owners. A file that exceeds a limit is refused when it is stored; in a file that is stored already,
rules beyond the limits are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from indexing.errors import InvalidValueError
from indexing.models.repositories import check_code_owners

# The largest files in public repositories have a few thousand rules.
MAX_RULES: Final = 20_000
# The longest path on Linux.
MAX_PATTERN_LENGTH: Final = 4_096
MAX_OWNER_LENGTH: Final = 255
MAX_OWNERS: Final = 100

# The heading of a GitLab section; its owners apply to the rules of the section without owners.
_SECTION: Final = re.compile(r"^[^\S\n]*\^?\[([^\]\n]+)\](?:\[\d+\])?(?=\s|$)", re.MULTILINE)
# Marks an exclusion of GitLab. No valid pattern of GitHub begins with it.
_EXCLUSION: Final = "!"
# A space in a pattern has a backslash before it.
_FIELD: Final = re.compile(r"(?:[^\s\\]|\\.|\\$)+")
_COMMENT: Final = re.compile(r"\s#.*")


class Rule(NamedTuple):
    """The pattern of a line and its owners.

    The last rule of a section that matches a file decides, and gives it no owners if it has none.
    If an exclusion of the section matches, no rule of the section does. Rules above all headings
    are in section 0.
    """

    pattern: str
    owners: tuple[str, ...]
    line: int
    section: int = 0
    is_exclusion: bool = False


def check_rules(text: str) -> str:
    """Return the text of a file that can be stored, or raise `InvalidValueError` with the line."""
    check_code_owners(text)
    for count, rule in enumerate(read_rules(text), 1):
        if count > MAX_RULES:
            raise InvalidValueError(f"line {rule.line}: must have at most {MAX_RULES:,} rules")
        if len(rule.pattern) > MAX_PATTERN_LENGTH:
            raise InvalidValueError(
                f"line {rule.line}: a pattern must have at most {MAX_PATTERN_LENGTH:,} characters"
            )
        if len(rule.owners) > MAX_OWNERS:
            raise InvalidValueError(f"line {rule.line}: must have at most {MAX_OWNERS} owners")
        if any(len(owner) > MAX_OWNER_LENGTH for owner in rule.owners):
            raise InvalidValueError(
                f"line {rule.line}: an owner must have at most {MAX_OWNER_LENGTH} characters"
            )
    return text


def read_rules(text: str) -> Iterator[Rule]:
    """Yield the rules in the order of the file."""
    # GitHub has no sections.
    is_gitlab = _SECTION.search(text) is not None
    section = 0
    # Sections with the same name are one.
    sections: dict[str, int] = {}
    defaults: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        # Only unescaped spaces end a pattern, so look for comments behind it.
        written = line.lstrip()
        heading = _SECTION.match(written)
        if heading is not None:
            section = sections.setdefault(heading[1].casefold(), len(sections) + 1)
            defaults = _owners_in(_words(written[heading.end() :]))
            continue
        field = _FIELD.match(written)
        if field is None or written.startswith("#") or field[0] == _EXCLUSION:
            continue
        pattern = field[0].removeprefix(_EXCLUSION)
        is_exclusion = pattern != field[0]
        if is_gitlab and not pattern.startswith("/"):
            # On GitHub, a slash inside the pattern binds it to the root.
            pattern = f"**/{pattern}"
        words = _words(written[field.end() :])
        owners = () if is_exclusion else _owners_in(words) or defaults
        # A rule without any word takes owners away. One whose owners are all misspelled must not:
        # GitHub skips it.
        if owners or is_exclusion or not words:
            yield Rule(pattern, owners, number, section, is_exclusion)


def _words(rest: str) -> list[str]:
    """Return the words behind a pattern or heading, without the comment at the end."""
    return _COMMENT.sub("", rest).split()


def _owners_in(words: list[str]) -> tuple[str, ...]:
    """Return the users, teams, roles and mail addresses among the words, each once."""
    return tuple(dict.fromkeys(word for word in words if "@" in word[:-1]))
